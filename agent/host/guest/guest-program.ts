import { spawn, type ChildProcess } from 'node:child_process'
import { constants, openSync } from 'node:fs'
import { Socket, type ConnectOpts, type SocketConstructorOpts } from 'node:net'
import { headBytes, outputRecord, writeHead, type OutputNumber } from '../../../shared/program-output.js'
import type { Terminal, TerminalCommand, TerminalListener } from '../process/pty.js'

/** Interval in ms between checks for new output. An ended program's outputs are closed after two silent intervals. */
const quietMs = 200
const readBytes = 64 * 1024

/**
 * Runs a program in a guest without a terminal. Its output consists of the records of shared/program-output.ts.
 * @param command the program perl/run-in-guest.pl with its arguments
 * @throws {Error} if no processes are available
 */
export function openGuestProgram(command: TerminalCommand, listener: TerminalListener): Terminal {
  const { program, args, env } = command
  const child = spawn(program, args, { env, cwd: '/', detached: true, stdio: ['pipe', 'pipe', 'pipe'] })
  child.on('error', () => undefined) // the check of `pid` below reports this error
  if (child.pid === undefined) throw new Error(`the program ${program} could not be started in the guest`)
  return new GuestProgram(child, listener)
}

class GuestProgram implements Terminal {
  #input: Socket | undefined
  #outputs: Socket[] = []
  /** Input that arrived before the pipes were open. */
  #early: Buffer[] = []
  #hasInputEnded = false
  #isPaused = false
  #isClosed = false
  #code: number | undefined
  #hasExited = false
  #quietTimes = 0
  #quiet: NodeJS.Timeout | undefined

  constructor(
    private readonly child: ChildProcess,
    private readonly listener: TerminalListener,
  ) {
    const { stdin, stdout, stderr } = child
    for (const stream of [stdin, stdout, stderr]) stream!.on('error', () => undefined) // the event `close` follows
    stdout!.once('data', (files: Buffer) => this.#open(files.toString().trim().split(' ')))
    stderr!.on('data', (text: Buffer) => this.#show(outputRecord(2, text)))
    child.once('close', (code) => this.#ended(code ?? -1))
  }

  write(bytes: Buffer): void {
    if (this.#input) this.#put(this.#input, bytes)
    else this.#early.push(bytes)
  }

  endInput(): void {
    this.#hasInputEnded = true
    this.#input?.end()
  }

  resize(): void {
    // A program without a terminal has no size.
  }

  pause(): void {
    this.#isPaused = true
    for (const output of this.#outputs) output.pause()
  }

  resume(): void {
    this.#isPaused = false
    for (const output of this.#outputs) output.resume()
  }

  /** Hangs up by closing the standard input of run-in-guest.pl, which then ends the program. */
  close(): void {
    this.#isClosed = true
    this.child.stdin!.destroy()
    this.#input?.destroy()
    for (const output of this.#outputs) output.destroy()
  }

  /** Opens the pipes of the program, and then lets it run. @param files numbers of descriptors of run-in-guest.pl */
  #open(files: readonly string[]): void {
    if (this.#isClosed) return
    try {
      const [input = '', output = '', errors = ''] = files
      this.#input = new Socket({ fd: this.#openPipe(input, constants.O_WRONLY), readable: false, writable: true })
      this.#outputs = [this.#openOutput(output, 1), this.#openOutput(errors, 2)]
    } catch {
      return this.close() // the program has ended: the event `close` of the child follows
    }
    this.#input.on('error', () => undefined) // the program has closed its input, and drops all further input
    this.child.stdin!.write('\n')
    for (const bytes of this.#early.splice(0)) this.#put(this.#input, bytes)
    if (this.#hasInputEnded) this.#input.end()
  }

  #openPipe(file: string, access: number): number {
    return openSync(`/proc/${this.child.pid}/fd/${file}`, access | constants.O_NONBLOCK)
  }

  /** Reads an output, always into the same buffer. This is safe, because the listener copies what it gets. */
  #openOutput(file: string, number: OutputNumber): Socket {
    const record = Buffer.alloc(headBytes + readBytes)
    const onread = {
      buffer: record.subarray(headBytes),
      callback: (bytes: number): boolean => {
        this.#show(writeHead(record.subarray(0, headBytes + bytes), number))
        return true
      },
    }
    const fd = this.#openPipe(file, constants.O_RDONLY)
    const options: SocketConstructorOpts & ConnectOpts = { fd, readable: true, writable: false, onread }
    const output = new Socket(options)
    output.on('error', () => undefined) // the event `close`, which follows, handles the end
    output.on('close', () => this.#settle())
    return this.#isPaused ? output.pause() : output.resume()
  }

  #show(record: Buffer): void {
    this.#quietTimes = 0
    this.listener.onData(record)
  }

  /** Writes input. Reports it as taken when it was written, or at once if the program has closed its input. */
  #put(input: Socket, bytes: Buffer): void {
    input.write(bytes, () => this.listener.onTaken(bytes.length))
  }

  /** Handles the end of the program. Its children can still have its outputs open, and some output can be unread. */
  #ended(code: number): void {
    this.#code = code
    this.#quiet = setInterval(() => {
      if (!this.#isPaused && this.#quietTimes++ > 0) for (const output of this.#outputs) output.destroy()
    }, quietMs)
    this.#settle()
  }

  #settle(): void {
    if (this.#code === undefined || this.#hasExited || this.#outputs.some(({ closed }) => !closed)) return
    this.#hasExited = true
    clearInterval(this.#quiet)
    this.#input?.destroy()
    this.listener.onExit(this.#code)
  }
}
