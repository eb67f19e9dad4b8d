import { expect } from 'chai'
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { openSocket } from '../../agent/console/socket-terminal.js'
import type { Terminal } from '../../agent/host/process/pty.js'
import { waitFor } from '../support/wait.js'

const keys = { ctrl: 0xffe3, alt: 0xffe9, delete: 0xffff } as const

/** Builds the RFB message for a pressed key (RFC 6143, 7.5.4). */
function press(key: number): Buffer {
  const event = Buffer.from([4, 1, 0, 0, 0, 0, 0, 0])
  event.writeUInt32BE(key, 4)
  return event
}

/** Tests QEMU's screen and keyboard. The virtual processors do not run, and QEMU reports the keys that it gets. */
describe('the socket of a screen', function () {
  const folder = mkdtempSync('/tmp/btest-screen-')
  const path = join(folder, 'vnc.sock')
  let qemu: ChildProcess
  let said = ''

  before(async () => {
    const args = ['-S', '-nodefaults', '-vga', 'std', '-display', 'none', '-vnc', `unix:${path}`]
    qemu = spawn('qemu-system-x86_64', [...args, '-trace', 'vnc_key_event_map'], { stdio: 'pipe' })
    qemu.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()))
    await waitFor(() => existsSync(path), { what: () => `a socket: ${said}` })
  })
  after(() => {
    qemu.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })

  async function openScreen(onExit: () => void): Promise<Terminal> {
    let got = 0
    const terminal = openSocket(path, {
      onData: (chunk) => (got += chunk.length),
      onExit,
      onTaken: () => undefined,
    })
    const has = (bytes: number): Promise<unknown> => waitFor(() => got >= bytes, { what: 'RFB' })
    await has(12)
    terminal.write(Buffer.from('RFB 003.008\n'))
    await has(14)
    terminal.write(Buffer.from([1])) // security type 1: no authentication
    await has(18)
    terminal.write(Buffer.from([1])) // requests shared access
    await has(18 + 24)
    return terminal
  }

  it('delivers the last key presses of a client that disconnects while the virtual machine is busy', async () => {
    let hasEnded = false
    const terminal = await openScreen(() => (hasEnded = true))
    qemu.kill('SIGSTOP')
    for (const key of Object.values(keys)) terminal.write(press(key))
    terminal.close()
    qemu.kill('SIGCONT')
    await waitFor(() => hasEnded, { what: 'its end' })
    for (const key of Object.keys(keys)) expect(said).to.include(`[${key}]`)
  })

  it('needs little memory for many small pieces of unread output', async () => {
    let taken = 0
    let other: Socket | undefined
    const full = createServer((socket) => (other = socket.pause())).listen(join(folder, 'full.sock'))
    const terminal = openSocket(join(folder, 'full.sock'), {
      onData: () => undefined,
      onExit: () => undefined,
      onTaken: (bytes) => (taken += bytes),
    })
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const used = (): number => {
      for (let n = 0; n < 2; n++) collect()
      return process.memoryUsage().heapUsed + process.memoryUsage().external
    }
    const before = used()
    const piece = Buffer.from('x')
    terminal.write(Buffer.alloc(2 ** 20)) // more than fits into the kernel's buffers
    for (let count = 0; count < 250_000; count++) terminal.write(piece)
    const grownMib = (used() - before) / 2 ** 20
    await waitFor(() => other, { what: 'a connection' })
    terminal.close()
    other?.destroy()
    full.close()
    expect(grownMib).to.be.below(8)
    expect(taken).to.be.below(2 ** 20)
  })

  it('is closed even if the virtual machine hangs', async () => {
    let hasEnded = false
    const terminal = await openScreen(() => (hasEnded = true))
    qemu.kill('SIGSTOP')
    terminal.close()
    await waitFor(() => hasEnded, { what: 'its end' })
    qemu.kill('SIGCONT')
  })
})
