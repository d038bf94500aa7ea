# One line per command; what they do is in scripts/.
.DEFAULT_GOAL := help
.PHONY: help run test bench lint package

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: ## a device lives through an update, a failed update and a rollback (KEEP=1 keeps it)
	@cargo build --release --quiet -p holdfast
	@examples/guard-story/story $(if $(KEEP),--keep)

test: ## install what the tests need, then run all of them (LEVEL=decisions|services|fuzz|walk|cluster|appliances|disks for one level)
	@scripts/prerequisites
	@scripts/test $(LEVEL)

bench: ## compare with what one would use instead, as ratios; takes a while, needs root (PART=graph|guard|storage|upgrade for one)
	@scripts/bench $(PART)

lint: ## formatting, clippy, scripts
	@scripts/lint

package: ## build target/package: the tree as installed, a tarball, a .deb
	@scripts/package
