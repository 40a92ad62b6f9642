# doorward_builtin: the files of config/builtin.list as bytes in the binary, so that drop-in mode and the named shapes
# need no file beside it. The files in config/ stay the only source.
file(STRINGS ${CMAKE_SOURCE_DIR}/config/builtin.list builtin_files)
set(builtin_c ${CMAKE_BINARY_DIR}/builtin.c)
set(builtin_paths "")
foreach(f ${builtin_files})
  list(APPEND builtin_paths ${CMAKE_SOURCE_DIR}/config/${f})
endforeach()
add_custom_command(OUTPUT ${builtin_c}
  COMMAND ${CMAKE_COMMAND} -DOUT=${builtin_c} -DROOT=${CMAKE_SOURCE_DIR}/config "-DFILES=${builtin_files}"
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_run.cmake
  DEPENDS ${builtin_paths} ${CMAKE_SOURCE_DIR}/config/builtin.list ${CMAKE_SOURCE_DIR}/cmake/embed_run.cmake VERBATIM)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/config/builtin.list)
add_library(doorward_builtin STATIC ${builtin_c})
target_link_libraries(doorward_builtin PRIVATE doorward_flags)
