import { composeInstallScript } from '../gateway/join/install-script.js'

/* Prints the script that installs, upgrades and removes the agent of a host, for `scripts/check`. */

process.stdout.write(composeInstallScript('gateway/join/install'))
