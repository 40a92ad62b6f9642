# A thin front: each target is one script, and each script also runs by itself.
.PHONY: all demo test cov bench docs
all:
	@scripts/build release
demo:
	@scripts/demo
test:
	@scripts/test
cov:
	@scripts/cov
bench:
	@scripts/bench
docs:
	@scripts/docs
