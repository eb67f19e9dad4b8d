import { readFileSync } from 'node:fs'

/**
 * The README's lines from create to delete, in one shell that stops at the first failure. ssh is told the
 * password that it would ask for.
 */
export function readmeShell(): string {
  const text = readFileSync('README.md', 'utf8').split('## From curl to a running guest\n')[1] ?? ''
  const section = text.split('\n## ')[0] ?? ''
  const blocks = [...section.matchAll(/```sh\n(.*?)```/gs)].map((match) => match[1] ?? '')
  if (blocks.length < 5) throw new Error('README.md: the lines from create to delete are not found')
  const quiet = '-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'
  return [
    'set -euo pipefail',
    `ssh() { sshpass -p "$(jq -r .data.ssh_password <<<"$answer")" ssh ${quiet} "$@"; }`,
    ...blocks,
  ].join('\n')
}

/** What the README says to change of them for a virtual machine; and where a host has no systemd in it, or another address. */
export function machineShell({ address, systemd }: { address: string; systemd: boolean }): string {
  const lines = readmeShell()
    .replace('"virtualization": "lxc"', '"virtualization": "kvm"')
    .replace('-o ConnectionAttempts=20 ', '-o ConnectionAttempts=120 ')
    .replace(/^host=.*$/m, `host=${address}`)
  return systemd ? lines : lines.replace('systemctl is-system-running --wait', 'echo running')
}

/** What those lines must have said, one of each. */
export const readmeResults = [
  /^running$/m,
  /^udp\t\d+\t\d+\t7000$/m,
  ...['firewall', 'limits', 'traffic limit', 'expiry'].map((what) => new RegExp(`^${what} updated$`, 'm')),
  /"limit_gb": 1000/,
  ...['create', 'stop', 'start', 'restart', 'reinstall', 'delete'].map(
    (action) => new RegExp(`^${action} web1: done`, 'm'),
  ),
]
