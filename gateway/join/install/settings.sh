#!/bin/sh
# Installs the Berth agent on this machine and joins it to the gateway that created the token in BERTH_JOIN_TOKEN.
# Another run repairs the installation, or upgrades it to the version of the gateway.
# The option --uninstall removes the agent together with all its guests.
# The agent itself runs the copy in its package to install another version: install.sh --upgrade|--rollback DIRECTORY
# At boot, install.sh --resume ends an upgrade that a restart of the machine interrupted.
set -eu

gateway='@GATEWAY@'
version='@VERSION@'
authority='@AUTHORITY@'

packages=/var/lib/berth/packages
# Packages that are being fetched, and packages of the version before the installed version.
next=$packages/next
previous=$packages/previous
# Packages of a failed rollback. They are kept here until the newer version is installed again.
undone=$packages/undone
# The upgrade that has begun, and the unit that ends it after a restart of the machine.
pending=$packages/pending
units=/etc/systemd/system
resume_unit=berth-upgrade-resume.service
keyring=/usr/share/keyrings/berth.gpg
sources=/etc/apt/sources.list.d/berth.sources
apt_lists=/var/lib/apt/lists
lock_file=/run/berth-install.lock
config=/etc/berth/agent.yaml
port=7443
least_free_mb=3000
least_free_mb_of_upgrade=500
# How often the gateway may answer that it does not reach the new version, and a time limit for all these answers.
most_answers=60
most_seconds=900
supported='Debian 12 or newer, or Ubuntu 24.04 or newer'
# needrestart would restart services of this machine that have nothing to do with Berth.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 NEEDRESTART_SUSPEND=1
