# A thin front: each target is one script, and each script also runs by itself.
.PHONY: all demo test test-chaos cov fuzz bench bench-quick bench-check budget docs
all:
	@scripts/build release
demo:
	@OPA=$(or $(OPA),0) scripts/demo
test:
	@scripts/test
test-chaos:
	@scripts/chaos full
cov:
	@scripts/cov
fuzz:
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) scripts/fuzz
bench:
	@scripts/bench
bench-quick:
	@scripts/bench --quick
bench-check:
	@scripts/bench check
budget:
	@scripts/budget
docs:
	@scripts/docs
