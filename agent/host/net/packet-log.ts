import { createInterface } from 'node:readline'
import { perlProgram } from '../process/perl-program.js'
import { start } from '../process/process.js'

/** Pause in ms before the listening process is started again. Each failure to listen doubles the pause. */
const restartMs = { first: 1000, longest: 60_000 }

/** Packets of one guest with equal logged fields, collected since the last report. `count` is their number. */
export type PacketSample =
  | {
      readonly kind: 'opened' | 'refused'
      readonly guest: string
      readonly target: string
      readonly protocol: string
      /** Port of the target. 0: the protocol has no ports. */
      readonly port: number
      readonly count: number
    }
  /** Packets of one guest with equal logged fields, collected since the last report. `count` is their number. */
  | {
      readonly kind: 'stratum' | 'pool'
      readonly guest: string
      readonly target: string
      readonly port: number
      readonly count: number
    }
  /** The guest has answered a client as a proxy. */
  | {
      readonly kind: 'proxy'
      readonly guest: string
      readonly target: string
      readonly port: number
      readonly way: string
      readonly count: number
    }

export interface PacketReport {
  readonly samples: readonly PacketSample[]
  /** Numbers of sampled packets. `seen`: inspected packets. `lost`: packets that were too many to be inspected. */
  readonly seen: number
  readonly lost: number
}

export interface PacketLogOptions {
  /** Number of the nflog group (`log group` in nft(8)). */
  readonly group: number
  readonly everySeconds: number
  /** Domain names of mining pools. */
  readonly pools: readonly string[]
  readonly onReport: (report: PacketReport) => void
  /** Called with the reason when the listener has ended. The listener starts again after a pause. */
  readonly onEnd?: (reason: string) => void
}

/** Receives samples of packets, in a separate process that ends with the agent. */
export class PacketLog {
  #child: ReturnType<typeof start> | undefined
  #restart: NodeJS.Timeout | undefined
  #restartMs = restartMs.first
  #closed = false
  #samples: PacketSample[] = []
  #ready: () => void = () => undefined
  /** Resolves when the logging process listens, or when the first attempt to start it has failed. */
  readonly ready = new Promise<void>((done) => (this.#ready = done))

  constructor(private readonly options: PacketLogOptions) {
    this.#start()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#restart)
    this.#child?.kill('SIGKILL')
  }

  #start(): void {
    const { group, everySeconds, pools, onEnd } = this.options
    const args = [perlProgram('packet-log'), String(group), String(everySeconds), pools.join(',')]
    const child = start('/usr/bin/perl', args)
    this.#child = child
    createInterface({ input: child.stdout }).on('line', (line) => this.#take(line))
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-500)))
    let gone = false
    const again = (error?: unknown): void => {
      if (gone || this.#closed) return
      gone = true
      this.#samples = []
      this.#ready()
      onEnd?.(error instanceof Error ? error.message : said.trim() || 'killed')
      this.#restart = setTimeout(() => this.#start(), this.#restartMs).unref()
      this.#restartMs = Math.min(this.#restartMs * 2, restartMs.longest)
    }
    child.once('error', again).once('close', again)
  }

  #take(line: string): void {
    const [word = '', ...rest] = line.split(' ')
    if (word === 'ready') {
      this.#restartMs = restartMs.first
      this.#ready()
    } else if (word === 'end') {
      const samples = this.#samples
      this.#samples = []
      this.options.onReport({ samples, seen: Number(rest[0]), lost: Number(rest[1]) })
    } else {
      const sample = parseSample(word, rest)
      if (sample) this.#samples.push(sample)
    }
  }
}

/** Parses a line of the output of packet-log.pl. */
export function parseSample(word: string, rest: readonly string[]): PacketSample | undefined {
  const [guest = '', target = '', third = '', fourth = '', fifth = ''] = rest
  const kind = kinds[word]
  if (kind === undefined) return undefined
  if (kind === 'proxy') return { kind, guest, target, port: Number(third), way: fourth, count: Number(fifth) }
  if (kind === 'opened' || kind === 'refused')
    return { kind, guest, target, protocol: third, port: Number(fourth), count: Number(fifth) }
  return { kind, guest, target, port: Number(third), count: Number(fourth) }
}

const kinds: Readonly<Record<string, PacketSample['kind']>> = {
  o: 'opened',
  r: 'refused',
  s: 'stratum',
  n: 'pool',
  x: 'proxy',
}
