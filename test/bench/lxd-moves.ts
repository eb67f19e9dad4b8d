import { statSync } from 'node:fs'
import { timed } from './figures.js'
import { isLxdInstalled } from './lxd.js'
import { lxc, LxdPair, type LxdServer } from './lxd-pair.js'
import { fill, logOf, watchDowntime, writeOften, type MoveDurations } from './moved-guest.js'

const guest = 'btestbench-moved'

/** One move in progress. */
interface Move {
  /** The guest at the source and at the target, as LXD's client names them. */
  readonly source: string
  readonly target: string
  /** Ends the guest at the source, and the program that writes to its disk. */
  readonly stop: () => Promise<void>
}

/** Moves a container between two servers of LXD. LXD cannot move a running container without CRIU, so it is stopped. */
export class LxdMoves {
  readonly #pair = new LxdPair()
  #from = this.#pair.first
  #to = this.#pair.second

  /** @param rootfs directory of the image @returns undefined if LXD is not installed */
  static async open(rootfs: string): Promise<LxdMoves | undefined> {
    if (!isLxdInstalled()) return undefined
    const moves = new LxdMoves()
    try {
      await moves.#pair.open(rootfs)
      await moves.#pair.create(guest)
      fill(moves.#from.diskOf(guest))
      return moves
    } catch (error) {
      await moves.close()
      throw error
    }
  }

  /** Measures what the documentation of LXD describes: stop, `lxc move`, start. */
  move(): Promise<MoveDurations> {
    return this.#measure(async ({ source, target, stop }) => {
      await stop()
      await lxc('move', source, target)
      await lxc('start', target)
    })
  }

  /**
   * Measures the move with the shortest interruption: copies of the running guest, and a last copy of the stopped one.
   * Each copy needs a snapshot. LXD sends only changes since the newest snapshot in the same copy.
   */
  async refresh(): Promise<MoveDurations> {
    const [source, target] = [nameAt(this.#from), nameAt(this.#to)]
    const durations = await this.#measure(copyRepeatedly)
    await lxc('delete', source)
    for (const snapshot of snapshots) await lxc('delete', `${target}/${snapshot}`)
    return durations
  }

  close(): Promise<void> {
    return this.#pair.close()
  }

  async #measure(steps: (move: Move) => Promise<void>): Promise<MoveDurations> {
    const [from, to] = [this.#from, this.#to]
    const writer = new AbortController()
    const writing = writeOften(from.diskOf(guest), writer.signal)
    const watched = watchDowntime(from.lxcPath, to.lxcPath)
    let sentBytes = 0
    const stop = async (): Promise<void> => {
      await lxc('stop', '--force', nameAt(from))
      writer.abort()
      await writing
      sentBytes = statSync(logOf(from.diskOf(guest))).size
    }
    const totalMs = await timed(() => steps({ source: nameAt(from), target: nameAt(to), stop }))
    const { size } = statSync(logOf(to.diskOf(guest)))
    if (size !== sentBytes) throw new Error(`LXD moved ${size} of ${sentBytes} bytes`)
    ;[this.#from, this.#to] = [to, from]
    return { totalMs, downMs: await watched }
  }
}

const snapshots = ['s0', 's1', 's2'] as const

async function copyRepeatedly({ source, target, stop }: Move): Promise<void> {
  const [first, second, last] = snapshots
  await lxc('snapshot', source, first)
  await lxc('copy', '--stateless', source, target)
  await lxc('snapshot', source, second)
  await lxc('copy', '--stateless', '--refresh', source, target)
  await stop()
  await lxc('snapshot', source, last)
  await lxc('copy', '--stateless', '--refresh', source, target)
  await lxc('start', target)
}

function nameAt({ name }: LxdServer): string {
  return `${name}:${guest}`
}
