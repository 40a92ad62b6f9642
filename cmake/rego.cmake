# rego: policies evaluated in the process. A static library that cargo builds from rego/; without it everything else is
# there, DOORWARD_REGO is not defined, and the C side says what is missing. One build serves all presets: cargo's folder
# is shared, and cargo itself makes two builds wait for each other.
set(DOORWARD_EMBEDDED_REGO AUTO CACHE STRING "ON, OFF or AUTO: policies evaluated in the process (needs Rust's cargo)")
if(DEFINED ENV{DOORWARD_CARGO_TARGET_DIR})
  set(cargo_target "$ENV{DOORWARD_CARGO_TARGET_DIR}")
else()
  set(cargo_target "${CMAKE_SOURCE_DIR}/build/cargo")
endif()
set(DOORWARD_CARGO_TARGET_DIR "${cargo_target}" CACHE PATH "Where cargo builds, for all presets")

file(STRINGS ${CMAKE_SOURCE_DIR}/rego/Cargo.toml wanted REGEX "^rust-version")
string(REGEX MATCH "[0-9.]+" wanted "${wanted}")

# Sets `reason` where there is no cargo to build with.
function(rego_find_cargo)
  set(reason "" PARENT_SCOPE)
  find_program(CARGO cargo HINTS "$ENV{CARGO_HOME}/bin" "$ENV{HOME}/.cargo/bin" /usr/lib/rust-${wanted}/bin)
  if(NOT CARGO)
    set(reason "there is no cargo" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${CARGO} --version OUTPUT_VARIABLE said ERROR_QUIET)
  string(REGEX MATCH "[0-9]+[.][0-9]+([.][0-9]+)?" found "${said}")
  if(NOT found OR found VERSION_LESS wanted)
    set(reason "${CARGO} is ${found}" PARENT_SCOPE)
    return()
  endif()
  # With all crates here already this asks no network.
  execute_process(COMMAND ${CARGO} -vV OUTPUT_VARIABLE said ERROR_QUIET)
  string(REGEX MATCH "host: ([^\n]+)" said "${said}")
  execute_process(COMMAND ${CARGO} fetch --locked --quiet --target ${CMAKE_MATCH_1}
                          --manifest-path ${CMAKE_SOURCE_DIR}/rego/Cargo.toml
                  RESULT_VARIABLE failed ERROR_VARIABLE said)
  if(failed)
    set(reason "the crates of rego/Cargo.lock cannot be fetched: ${said}" PARENT_SCOPE)
  endif()
endfunction()

add_library(rego INTERFACE)
target_include_directories(rego INTERFACE ${CMAKE_SOURCE_DIR}/rego/include)
set(DOORWARD_HAS_REGO OFF)
if(DOORWARD_EMBEDDED_REGO)
  rego_find_cargo()
  if(reason STREQUAL "")
    set(DOORWARD_HAS_REGO ON)
  elseif(DOORWARD_EMBEDDED_REGO STREQUAL "AUTO")
    message(STATUS "Without policies in the process: ${reason} (Rust ${wanted} is needed)")
  else()
    message(FATAL_ERROR "DOORWARD_EMBEDDED_REGO: ${reason} (Rust ${wanted} is needed, https://rustup.rs)")
  endif()
endif()

if(DOORWARD_HAS_REGO)
  set(rego_library ${DOORWARD_CARGO_TARGET_DIR}/release/libdoorward_rego.a)
  file(GLOB rego_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/rego/src/*.rs)
  set(rego_cargo ${CMAKE_COMMAND} -E env --unset=CARGO_TARGET_DIR ${CARGO})
  set(rego_where --release --locked --quiet --manifest-path ${CMAKE_SOURCE_DIR}/rego/Cargo.toml
      --target-dir ${DOORWARD_CARGO_TARGET_DIR})
  # What cargo left as it was gets a new time, so that ninja does not ask again.
  add_custom_command(OUTPUT ${rego_library}
    COMMAND ${rego_cargo} build --lib ${rego_where}
    COMMAND ${CMAKE_COMMAND} -E touch_nocreate ${rego_library}
    DEPENDS ${rego_sources} ${CMAKE_SOURCE_DIR}/rego/Cargo.toml ${CMAKE_SOURCE_DIR}/rego/Cargo.lock
    COMMENT "Building the policy engine with cargo" VERBATIM)
  add_custom_target(rego_build DEPENDS ${rego_library})
  add_dependencies(rego rego_build)
  target_link_libraries(rego INTERFACE ${rego_library} pthread dl m)
  target_compile_definitions(rego INTERFACE DOORWARD_REGO)
endif()
