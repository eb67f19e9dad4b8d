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
