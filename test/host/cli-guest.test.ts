import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Pool } from '../../agent/storage/pool.js'
import { BerthTerminal, startBerth, type Ended } from '../support/cli/berth.js'
import { ensureTestImage } from '../support/guests/debian-image.js'
import { ServedHost } from '../support/host/served-host.js'
import { waitFor } from '../support/wait.js'

/** Runs `berth ssh` and `berth console` against a container with Debian, its SSH server and a real gateway. */
describe('the command line with a real container', () => {
  const lab = new ServedHost({ name: 'fcs', prefix: '198.18.149', prepare: installDebian })
  let env: Record<string, string>

  before(async () => {
    await lab.start()
    const programs = installSsh(lab.directory)
    env = {
      PATH: `${programs}:${process.env['PATH'] ?? ''}`,
      HOME: lab.directory,
      BERTH_URL: lab.gateway.url,
      BERTH_KEY: lab.gateway.adminKey,
    }
    const flags = ['--image', 'debian-12', '--ram', '256m', '--disk', '2g', '--assign-nat']
    const key = ['--ssh-auth-mode', 'key', '--ssh-public-key', `@${lab.directory}/id.pub`]
    const created = await berth('guest', 'create', 'web1', ...flags, ...key)
    expect(created.code, created.err + lab.host.logTail()).to.equal(0)
    const [address] = lab.host.address.split(':')
    const updated = await berth('host', 'update', lab.host.name, '--public-address', address!)
    expect(updated.code, updated.err).to.equal(0)
  })
  after(() => lab.close())

  const berth = (...args: string[]): Promise<Ended> => startBerth(args, env).ended

  it('runs a command by SSH, and ends with its exit code', async () => {
    const ended = await waitFor(
      async () => {
        const attempt = await berth('ssh', 'web1', '--', 'hostname; exit 7')
        return attempt.code === 255 ? undefined : attempt // 255: the SSH server has not started yet
      },
      { intervalMs: 500, what: () => `SSH to web1\n${lab.host.logTail()}` },
    )
    expect([ended.code, ended.out]).to.deep.equal([7, 'web1\n'])
  })

  it('opens a console with the size of the terminal, and ends it with Ctrl-]', async () => {
    const terminal = new BerthTerminal(['console', 'web1'], env)
    await terminal.shows('Connected to web1. Ctrl-] ends the console.')
    await terminal.shows(/root@web1:\S* ?# ?/)
    terminal.type('echo $(hostname) is $(stty size)\r')
    await terminal.shows('web1 is 20 100')
    terminal.type('\u001d')
    expect(await terminal.ended, terminal.text).to.equal(0)
  })

  it('ends a console with the exit code 0 when its shell ends', async () => {
    const terminal = new BerthTerminal(['console', 'web1'], env)
    await terminal.shows(/root@web1:\S* ?# ?/)
    terminal.type('exit\r')
    expect(await terminal.ended, terminal.text).to.equal(0)
  })

  it('explains that nothing listens on a port, and finds the SSH server', async () => {
    const found = await berth('why', 'web1', '22')
    expect(found.code, found.out + found.err).to.equal(0)
    const failed = await berth('why', 'web1', '81')
    expect([failed.code, failed.err.split('\n')[0]]).to.deep.equal([
      1,
      'berth: port 81 of web1 cannot be reached: no program in the guest listens on the port',
    ])
  })
})

/** Replaces the small image of the host by the image of Debian. */
async function installDebian(pool: string): Promise<void> {
  const image = join(pool, 'images/debian-12')
  execFileSync('btrfs', ['property', 'set', image, 'ro', 'false'])
  execFileSync('btrfs', ['-q', 'subvolume', 'delete', image])
  await ensureTestImage({ path: pool, images: join(pool, 'images') } as Pool)
}

/** Creates a key, and a program `ssh` that uses it and accepts the guest's host key. @returns the program's directory */
function installSsh(directory: string): string {
  const key = join(directory, 'id')
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key])
  const options = '-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=5'
  writeFileSync(join(directory, 'ssh'), `#!/bin/sh\nexec /usr/bin/ssh -i ${key} ${options} "$@"\n`, { mode: 0o755 })
  return directory
}
