import { readFileSync } from 'node:fs'

/** Returns the shell blocks of a section, which a reader would copy. */
function blocksOf(file: string, heading: string): string[] {
  const section = readFileSync(file, 'utf8').split(`## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  return [...section.matchAll(/```sh\n(.*?)```/gs)].map((match) => match[1] ?? '')
}

/**
 * Returns the tutorial's commands from creation to deletion, for one shell that stops at the first failure. `ssh` is
 * replaced by a command that gets the password without a question to the user.
 */
function tutorialLines(): string[] {
  const blocks = blocksOf('docs/getting-started.md', 'From curl to a running guest')
  if (blocks.length < 5) throw new Error('docs/getting-started.md: the commands from create to delete are missing')
  const quiet = '-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'
  return [
    'set -euo pipefail',
    `ssh() { sshpass -p "$(jq -r .data.ssh_password <<<"$answer")" ssh ${quiet} "$@"; }`,
    ...blocks,
  ]
}

/** Returns the README's commands unchanged, followed by a line that waits until the guest is deleted. */
function readmeLines(): string[] {
  const [block = '', ...others] = blocksOf('README.md', 'Your first guest with curl')
  if (others.length > 0 || block.match(/^curl /gm)?.length !== 3)
    throw new Error('README.md: the three commands from create to delete are missing')
  const status = `"$(api -o /dev/null -w '%{http_code}' "$API/containers/web1")"`
  return ['echo; echo README:', block, `until [ ${status} = 404 ]; do sleep 0.2; done; echo; echo web1 is deleted`]
}

/** Returns the commands of the tutorial, followed by those of the README. */
export function tutorialShell(): string {
  return [...tutorialLines(), ...readmeLines()].join('\n')
}

/** Returns the tutorial's commands for a virtual machine. @param systemd whether the guest has systemd */
export function machineShell({ address, systemd }: { address: string; systemd: boolean }): string {
  const lines = tutorialLines()
    .join('\n')
    .replace('"virtualization": "lxc"', '"virtualization": "kvm"')
    .replace('-o ConnectionAttempts=20 ', '-o ConnectionAttempts=120 ')
    .replace(/^host=.*$/m, `host=${address}`)
  return systemd ? lines : lines.replace('systemctl is-system-running --wait', 'echo running')
}

/** Matches the output that the tutorial's commands must produce, one pattern for each line. */
export const tutorialResults = [
  /^running$/m,
  /^udp\t\d+\t\d+\t7000$/m,
  ...['firewall', 'limits', 'traffic limit', 'expiry'].map((what) => new RegExp(`^${what} updated$`, 'm')),
  /"limit_gb": 1000/,
  ...['create', 'stop', 'start', 'restart', 'reinstall', 'delete'].map(
    (action) => new RegExp(`^${action} web1: done`, 'm'),
  ),
]

/** Matches the output of the README's commands: the responses to create, show and delete. */
export const readmeResult =
  /^README:\n\{"success":true,[^\n]*"ssh_password":[^\n]*\{"success":true,[^\n]*"status":[^\n]*\{"success":true,[^\n]*"task_id":[^\n]*\nweb1 is deleted$/m
