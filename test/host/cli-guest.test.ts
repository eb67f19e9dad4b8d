import { expect } from 'chai'
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Pool } from '../../agent/storage/pool.js'
import { BerthTerminal, startBerth, type ExitResult } from '../support/cli/berth.js'
import { Tmux } from '../support/cli/tmux.js'
import { ensureTestImage } from '../support/guests/debian-image.js'
import { processes } from '../support/host/inventory.js'
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

  const berth = (...args: string[]): Promise<ExitResult> => startBerth(args, env).ended

  it('runs a command by SSH, and ends with its exit code', async () => {
    const ended = await waitFor(
      async () => {
        const attempt = await berth('ssh', 'web1', '--', 'hostname; exit 7')
        return attempt.code === 255 ? undefined : attempt // 255: the SSH server has not started yet
      },
      { intervalMs: 500, what: () => `SSH to web1\n${lab.host.logTail()}` },
    )
    expect([ended.code, ended.out]).to.deep.equal([7, 'web1\n'])
    expect(readFileSync(join(lab.directory, '.config/berth/known_hosts'), 'utf8')).to.match(/^berth-\S+ ssh-ed25519 /m)
  })

  it('reads the host keys again if the guest has new ones', async () => {
    const script = 'rm /etc/ssh/ssh_host_*; ssh-keygen -q -A && systemctl restart ssh'
    expect((await berth('run', 'web1', '--', 'sh', '-c', script)).code).to.equal(0)
    const { code, out, err } = await berth('ssh', 'web1', '--', 'hostname')
    expect([code, out], err).to.deep.equal([0, 'web1\n'])
    expect(err).to.contain('web1 has new host keys, which the gateway confirms')
  })

  it('opens a console with the size of the terminal, and ends the console with Ctrl-]', async () => {
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

  describe('berth run', () => {
    it('passes the input and its end, keeps stdout and stderr apart, and ends with the exit code', async () => {
      const script = 'cat; echo error >/dev/stderr; echo "$2" $(id -u) $(pwd) $HOME; exit 7'
      const ended = await startBerth(['run', 'web1', '--', 'sh', '-c', script, 'sh', '', `a "b"  $c`], env, 'input\n')
        .ended
      expect(ended).to.deep.equal({ code: 7, out: 'input\na "b"  $c 0 / /root\n', err: 'error\n' })
    })

    it('ends with 128 plus the number of the signal that ended the program, or with 127 if the program does not exist', async () => {
      expect((await berth('run', 'web1', '--', 'sh', '-c', 'kill -TERM $$')).code).to.equal(143)
      const missing = await berth('run', 'web1', '--', 'btest-missing')
      expect(missing.code).to.equal(127)
      expect(missing.err).to.contain('No such file or directory')
    })

    it('ends the program with Ctrl-C', async () => {
      const started = startBerth(['run', 'web1', '--', 'sh', '-c', 'trap "" HUP; echo ready; sleep 54321'], env)
      await waitFor(() => started.out() === 'ready\n', { what: () => `ready: ${started.err()}` })
      started.child.kill('SIGINT')
      expect((await started.ended).code).to.equal(130)
      await waitFor(() => !processes().some(({ command }) => command === 'sleep 54321'), { what: 'the program ends' })
    })

    it('reads the log of a unit in the container', async () => {
      const read = async (): Promise<boolean> =>
        (await berth('logs', 'web1', 'ssh', '--lines', '50')).out.includes('Secure Shell server')
      await waitFor(read, { intervalMs: 1000, what: 'the log' })
    })

    it('ends although a child of the program keeps the outputs of the program open', async () => {
      const ended = await berth('run', 'web1', '--', 'sh', '-c', 'setsid sleep 65432 & echo started')
      expect([ended.code, ended.out]).to.deep.equal([0, 'started\n'])
      await berth('run', 'web1', '--', 'pkill', '-f', 'sleep 65432')
    })

    it('passes 50 MB in both directions unchanged, and uses little memory while nobody reads them', async () => {
      const file = join(lab.directory, 'large')
      execFileSync('sh', ['-c', `head -c 50000000 /dev/urandom >${file}`])
      const digest = createHash('sha256').update(readFileSync(file)).digest('hex')
      const sent = await ended(`run web1 -- sh -c 'tee /var/tmp/large | sha256sum' <${file}`)
      expect([sent.code, sent.out]).to.deep.equal([0, `${digest}  -\n`])
      const holder = processes().find(({ command }) => command.startsWith(`berth-console ${lab.directory}/`))!
      const before = memoryOf(holder.pid)
      const gate = join(lab.directory, 'gate')
      const reader = `{ while [ ! -e ${gate} ]; do sleep 0.1; done; sha256sum; }`
      const receiving = ended('run web1 -- cat /var/tmp/large', `| ${reader}`)
      await waitFor(() => processes().some(({ command }) => command === 'cat /var/tmp/large'), { what: 'the program' })
      await delay(2000) // time in which a program that nobody pauses would fill the memory
      expect(memoryOf(holder.pid) - before, 'KiB').to.be.below(16 * 1024)
      writeFileSync(gate, '')
      const received = await receiving
      expect([received.code, received.out]).to.deep.equal([0, `${digest}  -\n`])
    })

    /** Runs the command line in a shell. @returns its exit code and the output of the shell */
    async function ended(args: string, rest = ''): Promise<{ code: number | null; out: string }> {
      const script = `set -o pipefail; ${process.execPath} dist/cli/main.js ${args} ${rest}`
      const child = spawn('bash', ['-c', script], { env, stdio: ['ignore', 'pipe', 'inherit'] })
      let out = ''
      child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
      const [code] = (await once(child, 'close')) as [number | null]
      return { code, out }
    }
  })

  describe('berth cp', () => {
    const at = (path: string): string => join(lab.directory, path)
    const inside = async (script: string): Promise<string> => {
      const { code, out, err } = await berth('run', 'web2', '--', 'sh', '-c', script)
      expect(code, err).to.equal(0)
      return out
    }
    /** Copies files. @returns the exit code and the errors */
    async function copy(...args: string[]): Promise<[number | null, string]> {
      const { code, err } = await berth('cp', ...args)
      return [code, err]
    }
    before(async () => {
      const created = await berth('guest', 'create', 'web2', '--image', 'debian-12', '--ram', '256m', '--disk', '2g')
      expect(created.code, created.err).to.equal(0)
      mkdirSync(at('tree/sub'), { recursive: true })
      mkdirSync(at('got'))
      writeFileSync(at('tree/sub/program'), 'content', { mode: 0o4755 })
      writeFileSync(at(`tree/${'long'.repeat(50)} 中`), 'long')
      symlinkSync('sub/program', at('tree/link'))
    })

    it('copies files and directories into a guest, where they belong to root', async () => {
      expect(await copy(at('tree/sub/program'), 'web2:/srv/')).to.deep.equal([0, ''])
      expect(await copy(at('tree/sub/program'), 'web2:renamed')).to.deep.equal([0, ''])
      expect(await copy('-r', at('tree'), 'web2:/srv')).to.deep.equal([0, ''])
      const facts =
        'stat -c "%U %a %s" /srv/program /root/renamed /srv/tree/sub/program; cat /srv/tree/link /srv/tree/long*'
      expect(await inside(facts)).to.equal('root 755 7\nroot 755 7\nroot 755 7\ncontentlong')
    })

    it('copies files and directories from a guest', async () => {
      expect(await copy('web2:/etc/hostname', at('got'))).to.deep.equal([0, ''])
      expect(readFileSync(at('got/hostname'), 'utf8')).to.equal('web2\n')
      await inside(
        'mkdir -p /srv/t/s && cd /srv/t && echo 1 >s/a && ln s/a hard && ln -s s/a soft && mkfifo fifo && ln -s /etc/passwd out',
      )
      const [code, err] = await copy('-r', 'web2:/srv/t/', at('got/new'))
      expect(code, err).to.equal(1)
      expect(
        err
          .split('\n')
          .filter((line) => line !== '')
          .sort(),
      ).to.deep.equal([
        'berth: 2 files were not copied',
        'berth: skipped: ./t/fifo: it is neither a file nor a directory nor a link',
        'berth: skipped: ./t/out: it is a link that leads out of the copied directory',
      ])
      expect(readdirSync(at('got/new')).sort()).to.deep.equal(['hard', 's', 'soft'])
      for (const name of ['hard', 'soft', 's/a']) expect(readFileSync(at(`got/new/${name}`), 'utf8')).to.equal('1\n')
    })

    it('explains that a file is missing, and that directories require -r', async () => {
      expect((await copy('web2:/nowhere', at('got')))[0]).to.equal(3)
      expect((await copy(at('tree/sub/program'), 'web2:/nowhere/a'))[0]).to.equal(3)
      expect((await copy(at('nowhere'), 'web2:/srv'))[0]).to.equal(2)
      expect(await copy('web2:/etc', at('got'))).to.deep.equal([
        2,
        'berth: /etc is a directory\ncopy directories with -r\n',
      ])
    })

    it('writes nothing outside the target if the guest sends a hostile archive', async () => {
      const archive =
        'cd / && touch /srv/escaped && exec /usr/bin/tar-real -c -P -f - /srv/../srv/escaped ../srv/escaped'
      await inside(
        `mv /usr/bin/tar /usr/bin/tar-real && printf '#!/bin/sh\n${archive}\n' >/usr/bin/tar && chmod 755 /usr/bin/tar`,
      )
      const [code, err] = await copy('-r', 'web2:/srv/t', at('got/hostile'))
      expect(code).to.equal(1)
      expect(err).to.match(/the guest sent \/srv\/\.\.\/srv\/escaped, which was not requested/)
      expect(existsSync(at('got/hostile'))).to.equal(false)
    })
  })

  it('explains with “berth why” that nothing listens on a port, and finds a running SSH server', async () => {
    const found = await berth('why', 'web1', '22')
    expect(found.code, found.out + found.err).to.equal(0)
    const failed = await berth('why', 'web1', '81')
    expect([failed.code, failed.err.split('\n')[0]]).to.deep.equal([
      1,
      'berth: port 81 of web1 cannot be reached: no program in the guest listens on the port',
    ])
  })

  describe('in a terminal of tmux', () => {
    let tmux: Tmux
    before(() => {
      tmux = new Tmux('btest-cli', env, join(lab.directory, 'terminal'))
    })
    after(() => tmux?.close())

    it('shows a narrow table, and waits until a new guest is created', async () => {
      tmux.resize(44, 20)
      tmux.enter('berth guest list')
      await tmux.shows(/web1 .*\n(.*\n)*\$/)
      expect(
        tmux
          .screen()
          .split('\n')
          .filter((line) => line.includes('web1')),
      ).to.have.lengthOf(1)
      tmux.resize(100, 30)
      tmux.enter('clear; berth guest create web3 --image debian-12 --ram 256m --disk 2g --no-start; echo "code $?"')
      await tmux.shows('create web3: done')
      await tmux.shows('code 0')
    })

    it('changes nothing if the user presses Ctrl-C instead of a confirmation', async () => {
      tmux.enter(`clear; berth drain ${lab.host.name} --mode stop; echo "code $?"`)
      await tmux.shows('[y/N]')
      tmux.keys('C-c')
      await tmux.shows('nothing was changed')
      await tmux.shows('code 1')
    })

    it('runs Vim in a console, and the console follows the size of the terminal', async () => {
      tmux.enter('clear; berth console web1')
      await tmux.shows(/root@web1:\S* ?# ?/)
      tmux.enter('vim.tiny +"set showmode ruler" note')
      await tmux.shows(/^"note" \[New\]/m)
      tmux.keys('i')
      await tmux.shows(/^-- INSERT --/m)
      tmux.enter('first line')
      tmux.resize(70, 18)
      await tmux.shows(/^first line\n(.*\n){16}-- INSERT --/)
      await pressUntil('Escape', () => !tmux.screen().includes('-- INSERT --'))
      tmux.enter(':wq')
      await tmux.shows(/root@web1:\S* ?# ?$/m)
      tmux.enter('clear; cat note; echo size $(stty size)')
      await tmux.shows(/first line\n+size 18 70/)
    })

    it('shows the processes of the guest in htop, which draws its screen again in each new size', async () => {
      await installHtop()
      tmux.resize(100, 30)
      tmux.enter('clear; htop')
      await tmux.shows(/^(.*\n){29}F1Help .*F10Quit *\n$/)
      await tmux.shows(/^ +PID USER .*Command$/m)
      await tmux.shows(/^ +1 root .*init/m)
      tmux.resize(90, 14)
      await tmux.shows(/^(.*\n){13}F1Help .*F10Quit *\n$/)
      tmux.resize(100, 24)
      await tmux.shows(/^(.*\n){23}F1Help .*F10Quit *\n$/)
      await pressUntil('q', () => !tmux.screen().includes('F10Quit'))
      tmux.keys('C-c') // removes further q from the line
      tmux.resize(70, 18)
      tmux.enter('clear; echo size $(stty size)')
      await tmux.shows('size 18 70')
    })

    it('passes many pasted lines completely, in order and with bracketed-paste markers', async () => {
      const lines = Array.from({ length: 200 }, (_, n) => `${n} ${'pasted text, ä 中; '.repeat(6)}\n`)
      const text = lines.join('')
      expect(Buffer.byteLength(text)).to.be.above(20_000)
      tmux.enter(`clear; printf '\\033[?2004hready\\n'; cat >pasted; printf '\\033[?2004l'; echo "code $?"`)
      await tmux.shows(/^ready$/m)
      tmux.paste(text)
      tmux.keys('Enter', 'C-d')
      await tmux.shows(/^code 0$/m)
      const { out } = await berth('run', 'web1', '--', 'cat', '/root/pasted')
      expect(out).to.equal(`\u001b[200~${text}\u001b[201~\n`)
    })

    /** Copies htop into the guest, with the libraries that the guest lacks. */
    async function installHtop(): Promise<void> {
      expect((await berth('cp', '/usr/bin/htop', 'web1:/usr/local/bin/htop')).code).to.equal(0)
      const paths = execFileSync('ldd', ['/usr/bin/htop'], { encoding: 'utf8' })
      const { out } = await berth('run', 'web1', '--', 'ldd', '/usr/local/bin/htop')
      for (const [, name] of out.matchAll(/(\S+) => not found/g)) {
        const path = paths.split(`${name} => `)[1]!.split(' ')[0]!
        const copied = await berth('cp', path, `web1:/usr/local/lib/${name}`)
        expect(copied.code, copied.err).to.equal(0)
      }
      expect((await berth('run', 'web1', '--', 'ldconfig')).code).to.equal(0)
    }

    /** Presses a key until the screen has changed, because a program may lose a key while it handles a new size. */
    async function pressUntil(key: string, isDone: () => boolean): Promise<void> {
      const press = (): boolean => {
        if (isDone()) return true
        tmux.keys(key)
        return false
      }
      await waitFor(press, { timeoutMs: 60_000, intervalMs: 500, what: () => `an effect of ${key}:\n${tmux.screen()}` })
    }

    it('continues a console after the gateway was killed, without lost output', async () => {
      tmux.enter('clear; for i in $(seq 40); do echo "line $i"; sleep 0.2; done; echo "all $((40 + 2))"')
      await tmux.shows('line 3')
      await lab.gateway.kill()
      lab.gateway.start()
      await tmux.shows('all 42')
      const shown = [...tmux.screen().matchAll(/^line (\d+)$/gm)].map(([, number]) => Number(number))
      expect(shown).to.deep.equal(shown.map((_, index) => shown[0]! + index))
    })

    it('shows a full-screen program again after the gateway was killed', async () => {
      tmux.enter('clear; vim.tiny note')
      await tmux.shows(/^first line\n\n~/)
      await lab.gateway.kill()
      lab.gateway.start()
      await waitFor(
        () => {
          if (/^"note" .* written/m.test(tmux.screen())) return true
          tmux.enter(':w') // what is typed without a connection is lost
          return false
        },
        { timeoutMs: 60_000, intervalMs: 500, what: () => `the program:\n${tmux.screen()}` },
      )
      expect(tmux.screen()).to.match(/^first line\n/)
      tmux.enter(':q')
      await tmux.shows(/root@web1:\S* ?# ?$/m)
    })

    it('passes Ctrl-C to the program in the console', async () => {
      tmux.enter('clear; sleep 43215')
      await waitFor(() => processes().some(({ command }) => command === 'sleep 43215'), { what: 'the program' })
      tmux.keys('C-c')
      tmux.enter('echo "code $?"')
      await tmux.shows('code 130')
      tmux.enter('exit')
      await tmux.shows(/^\$ ?$/m)
    })

    it('shows the progress of a drain until all guests are stopped', async () => {
      tmux.resize(100, 30)
      tmux.enter(`clear; berth drain ${lab.host.name} --mode stop; echo "code $?"`)
      await tmux.shows('[y/N]')
      tmux.enter('y')
      await tmux.shows('code 0')
      expect(tmux.printed()).to.match(/drain \S+: \d of 3 done/) // the line is gone when the drain has ended
      expect(tmux.screen())
        .to.match(/^GUEST +WILL +NOTE$/m)
        .and.match(/^web1: stopped$/m)
        .and.match(/^web2: stopped$/m)
        .and.match(/^drain \S+: done; open the host again/m)
    })
  })
})

/** Resident memory of a process in KiB. */
function memoryOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

/** Replaces the small image of the host by the image of Debian. */
async function installDebian(pool: string): Promise<void> {
  const image = join(pool, 'images/debian-12')
  execFileSync('btrfs', ['property', 'set', image, 'ro', 'false'])
  execFileSync('btrfs', ['-q', 'subvolume', 'delete', image])
  await ensureTestImage({ path: pool, images: join(pool, 'images') } as Pool)
}

/** Creates a key, and a program `ssh` that uses it. @returns the program's directory */
function installSsh(directory: string): string {
  const key = join(directory, 'id')
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key])
  const options = '-o LogLevel=ERROR -o ConnectTimeout=5'
  writeFileSync(join(directory, 'ssh'), `#!/bin/sh\nexec /usr/bin/ssh -i ${key} ${options} "$@"\n`, { mode: 0o755 })
  return directory
}
