# One line per command; what they do is in scripts/.
.DEFAULT_GOAL := help
.PHONY: help run test prove bench lint package

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: ## an appliance follows its releases: an update, a broken one, and back by itself (ONCE=1 ends instead of staying up; HOLDFAST=/path/to/holdfast builds nothing)
	@scripts/run $(if $(ONCE),--once)

test: ## install what the tests need, then run those that every change must pass (FILTER='package(guard)' for some)
	@scripts/test $(if $(FILTER),'$(FILTER)')

prove: ## everything to its full bounds, in hours; continues where it stopped (LEVEL=walk|kills|power-cuts|… for one level)
	@scripts/prove $(LEVEL)

bench: ## compare with what one would use instead, as ratios; takes a while, needs root (PART=agent|graph|guard|images|storage|upgrade for one)
	@scripts/bench $(PART)

lint: ## formatting, clippy, scripts
	@scripts/lint

package: ## build target/package: the tree as installed, a tarball, a .deb
	@scripts/package
