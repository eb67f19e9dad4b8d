import { closeSync, readdirSync } from 'node:fs'
import { expect } from 'chai'
import type { ConsoleMode } from '../../agent/drivers/contract.js'
import type { Machine } from '../../agent/drivers/machine.js'
import { makeTerminal, openGuestPty } from '../../agent/host/guest/guest-terminal.js'
import { openPty, type Terminal } from '../../agent/host/process/pty.js'
import { processes } from '../support/host/inventory.js'
import { useLxcHost } from '../support/host/lxc-lab.js'
import { waitFor } from '../support/wait.js'

describe('a terminal session in a guest of the lxc driver', function () {
  const lab = useLxcHost({ name: 'btest-lxc-terminal', prefix: 'btt', subnet: '10.214.79' })
  const { booted, prepared, started } = lab
  const signal = new AbortController().signal
  const terminals: Terminal[] = []
  afterEach(() => {
    for (const terminal of terminals.splice(0)) terminal.close()
  })

  /** Opens a console of the guest as berth-console does. */
  async function open(machine: Machine, mode: ConsoleMode) {
    const place = await lab.host.driver.findConsole(machine, mode)
    const seen: { text: string; code?: number } = { text: '' }
    const listener = {
      onData: (chunk: Buffer) => void (seen.text += chunk.toString()),
      onExit: (code: number) => void (seen.code = code),
      onTaken: () => undefined,
    }
    const size = { columns: 80, rows: 24 }
    if (place.kind === 'socket' || place.kind === 'guest-program') throw new Error('no terminal')
    const terminal = place.kind === 'program' ? openPty(place, size, listener) : openGuestPty(place, size, listener)
    terminals.push(terminal)
    const says = async (pattern: RegExp, send: string): Promise<string> => {
      await waitFor(() => pattern.test(seen.text), {
        what: () => `${String(pattern)} in ${seen.text}`,
      })
      const { text } = seen
      seen.text = ''
      terminal.write(Buffer.from(send))
      return text
    }
    return { terminal, says, seen }
  }

  it('permits a login on /dev/console', async () => {
    const machine = await prepared()
    await lab.host.driver.initialize(machine, { password: 'correct-horse-7' }, machine.volume)
    await lab.host.driver.start(machine, signal)
    await booted(machine)
    const { terminal, says, seen } = await open(machine, 'serial')
    terminal.write(Buffer.from('\r'))
    await says(/login:/, 'root\r')
    await says(/assword:/, 'correct-horse-7\r')
    await says(/[#$] /, 'echo $((40+2))x\r')
    await says(/42x/, 'exit\r')
    terminal.close()
    await waitFor(() => seen.code !== undefined, { what: 'the program ends' })
  })

  /** Returns facts about the terminal of a shell. Expects that Ctrl-C ends a program and not the shell. */
  async function useShell(machine: Machine): Promise<{ tty: string; leads: boolean }> {
    const { says, seen } = await open(machine, 'shell')
    await says(/# $/, 'echo $(tty) $(stat -c %U $(tty)) $$ $(cut -d" " -f6 /proc/$$/stat) o""k\r')
    const [, tty = '', owner, pid, session] =
      /(\/\S+) (\S+) (\d+) (\d+) ok/.exec(await says(/ ok\r\n.*# $/s, `sh -c 'echo g""o; exec sleep 1000'\r`)) ?? []
    expect(owner).to.equal('root')
    // Ctrl-C is typed when the program has printed `go`. Before the start of the program, Ctrl-C would be lost.
    await says(/^go\r\n/m, '\x03')
    await says(/\^C[^]*# $/, 'exit 7\r')
    await waitFor(() => seen.code !== undefined, { what: () => `the shell ends: ${seen.text}` })
    expect(seen.code).to.equal(7)
    return { tty, leads: pid === session }
  }

  it('runs a shell on a terminal device of the guest', async () => {
    const machine = await started()
    await booted(machine)
    const { tty, leads } = await useShell(machine)
    expect(tty).to.match(/^\/dev\/pts\/\d+$/)
    expect(leads, 'leads its session').to.equal(true)
  })

  it('runs a shell even in a guest without setsid(1)', async () => {
    const machine = await started()
    await booted(machine)
    lab.host.inside(machine, 'rm', '/usr/bin/setsid')
    expect((await useShell(machine)).leads).to.equal(false)
  })

  /** Commands with which root in the guest manipulates /dev/pts. */
  const hostile = {
    'a file': 'touch /root/file && mount --bind /root/file /dev/pts/ptmx',
    'a terminal': 'mount --bind /dev/console /dev/pts/ptmx',
    'its own terminals':
      'mount -t devpts -o newinstance,ptmxmode=666 none /mnt && mount --bind /mnt/ptmx /dev/pts/ptmx',
    'a link to the host’s device': `ln -s /dev/ptmx /root/link && perl -e '
       my ($link, $ptmx, $here) = ("/root/link", "/dev/pts/ptmx", "");
       my $tree = syscall(428, -100, $link, 0x101); # open_tree, AT_SYMLINK_NOFOLLOW | OPEN_TREE_CLONE
       exit(syscall(429, $tree, $here, -100, $ptmx, 4) != 0)'`, // move_mount, MOVE_MOUNT_F_EMPTY_PATH
    'no free terminals': `perl -e 'for (1 .. 3) {
       pipe(my $done, my $busy);
       if (!fork) {
         my @all;
         while (open(my $one, "+<", "/dev/ptmx")) { push @all, $one }
         close(STDOUT), close(STDERR);
         close $busy;
         sleep 600;
       }
       close $busy;
       <$done>;
     }'`,
  }

  it('runs a shell even if the guest replaced /dev/pts/ptmx, and does not open the replacement', async () => {
    const machine = await started()
    await booted(machine)
    const clean = await lab.host.driver.findConsole(machine, 'shell')
    if (clean.kind !== 'guest-terminal') throw new Error(clean.kind)
    const terminals = clean.terminals!
    const first = makeTerminal(terminals)
    expect(first).to.be.greaterThan(2)
    closeSync(first!)
    const files = (): number => readdirSync('/proc/self/fd').length
    for (const [what, command] of Object.entries(hostile)) {
      lab.host.inside(machine, 'sh', '-c', command)
      const before = files()
      expect(makeTerminal(terminals), what).to.equal(undefined)
      expect(files(), what).to.equal(before)
      const { says } = await open(machine, 'shell')
      await says(/# $/, 'echo $((40+2))x\r')
      await says(/42x/, '')
      lab.host.inside(machine, 'sh', '-c', 'umount /dev/pts/ptmx 2>&1; true')
    }
  })

  it('runs a shell even if the guest mounted another file system at /dev/pts', async () => {
    const machine = await started()
    await booted(machine)
    lab.host.inside(machine, 'mount', '-t', 'tmpfs', 'none', '/dev/pts')
    lab.host.inside(machine, 'ln', '-s', '/etc/shadow', '/dev/pts/ptmx')
    const { says } = await open(machine, 'shell')
    await says(/# $/, 'echo $((40+2))x\r')
    await says(/42x/, '')
  })

  it('ends its programs when its last client disconnects', async () => {
    const machine = await started()
    await booted(machine)
    const { terminal, says, seen } = await open(machine, 'shell')
    await says(/# $/, 'sleep 12345 & sleep 23456\r')
    await says(/23456\r\n/, '')
    const keeper = /guest-terminal\.pl [^]*\/btest-lxc-terminal\//
    const keepers = () => processes().filter(({ command }) => keeper.test(command))
    expect(keepers()).not.to.deep.equal([])
    terminal.close()
    await waitFor(() => seen.code !== undefined, { what: 'the program ends' })
    await waitFor(() => !/^sleep (12345|23456)$/m.test(readProcesses()), {
      what: 'the command of the shell ends',
    })
    await waitFor(() => keepers().length === 0, { what: 'the process that keeps it open ends' })
  })

  it('reports the reason if no shell can be started', async () => {
    const machine = await started()
    await booted(machine)
    lab.host.inside(machine, 'rm', '/bin/sh')
    const { seen } = await open(machine, 'shell')
    await waitFor(() => seen.code !== undefined, { what: 'the program ends' })
    expect(seen.text).to.match(/No such file or directory/)
  })
})

function readProcesses(): string {
  return processes()
    .map(({ command }) => command)
    .join('\n')
}
