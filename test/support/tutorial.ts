import { readFileSync } from 'node:fs'

/**
 * The tutorial's commands from create to delete, in one shell that stops at the first failure. `ssh` gets the password
 * that it would ask for.
 */
export function tutorialShell(): string {
  const text =
    readFileSync('docs/getting-started.md', 'utf8').split('## From curl to a running guest\n')[1] ?? ''
  const section = text.split('\n## ')[0] ?? ''
  const blocks = [...section.matchAll(/```sh\n(.*?)```/gs)].map((match) => match[1] ?? '')
  if (blocks.length < 5)
    throw new Error('docs/getting-started.md: the commands from create to delete are missing')
  const quiet = '-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'
  return [
    'set -euo pipefail',
    `ssh() { sshpass -p "$(jq -r .data.ssh_password <<<"$answer")" ssh ${quiet} "$@"; }`,
    ...blocks,
  ].join('\n')
}

/** The tutorial's commands with the changes it describes for a virtual machine, for a guest with or without systemd. */
export function machineShell({ address, systemd }: { address: string; systemd: boolean }): string {
  const lines = tutorialShell()
    .replace('"virtualization": "lxc"', '"virtualization": "kvm"')
    .replace('-o ConnectionAttempts=20 ', '-o ConnectionAttempts=120 ')
    .replace(/^host=.*$/m, `host=${address}`)
  return systemd ? lines : lines.replace('systemctl is-system-running --wait', 'echo running')
}

/** Output that the commands must produce, one line of each. */
export const tutorialResults = [
  /^running$/m,
  /^udp\t\d+\t\d+\t7000$/m,
  ...['firewall', 'limits', 'traffic limit', 'expiry'].map((what) => new RegExp(`^${what} updated$`, 'm')),
  /"limit_gb": 1000/,
  ...['create', 'stop', 'start', 'restart', 'reinstall', 'delete'].map(
    (action) => new RegExp(`^${action} web1: done`, 'm'),
  ),
]
