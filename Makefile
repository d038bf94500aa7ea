# One line per command; what they do is in scripts/.
.DEFAULT_GOAL := help
.PHONY: help run test bench lint package

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: ## an appliance follows its releases: an update, a broken one, and back by itself (ONCE=1 ends instead of staying up)
	@cargo build --release --quiet -p holdfast --bin holdfast
	@examples/notes/story $(if $(ONCE),--once)

test: ## install what the tests need, then run all of them (LEVEL=decisions|services|walk|cluster|fuzz|sites|appliances|disks for one level)
	@scripts/prerequisites
	@scripts/test $(LEVEL)

bench: ## compare with what one would use instead, as ratios; takes a while, needs root (PART=agent|graph|guard|images|storage|upgrade for one)
	@scripts/bench $(PART)

lint: ## formatting, clippy, scripts
	@scripts/lint

package: ## build target/package: the tree as installed, a tarball, a .deb
	@scripts/package
