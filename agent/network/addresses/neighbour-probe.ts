import { setTimeout as delay } from 'node:timers/promises'
import { readFlags } from '../../host/net/interfaces.js'
import { Ip, isGoneForIp } from '../../host/net/ip.js'

interface ShownNeighbour {
  readonly dst: string
  readonly lladdr?: string
  readonly state?: readonly string[]
}

/** Time limit in ms. The kernel gives up after three requests, one second apart (mcast_solicit, arp(7)). */
const timeoutMs = 4500
const pollMs = 100

/**
 * Finds the computers on a segment that have these addresses, by ARP or IPv6 neighbour solicitation. The kernel sends
 * all requests at once. The agent therefore needs neither a raw socket nor an address in that network.
 * @param addresses canonical addresses of one segment; the size of the kernel's neighbour table limits their number
 * @returns the MAC that answered for each address, or '' if none did; an empty map if the interface is down
 */
export async function probeNeighbours(device: string, addresses: readonly string[]): Promise<Map<string, string>> {
  const ip = new Ip()
  try {
    const shown = (await ip.findInterface(device)) as { readonly flags: readonly string[] } | undefined
    const isUp = ['UP', 'LOWER_UP'].every((flag) => shown?.flags.includes(flag))
    return isUp ? await ask(ip, device, addresses) : new Map()
  } catch (error) {
    if (isGoneForIp(error) && readFlags(device) === undefined) return new Map() // the interface has been deleted
    throw error
  } finally {
    await ip.close()
  }
}

async function ask(ip: Ip, device: string, addresses: readonly string[]): Promise<Map<string, string>> {
  const asked = new Set(addresses)
  const known = await readNeighbours(ip, device, asked)
  const dead = known.filter(({ lladdr }) => lladdr === undefined)
  await ip.remove(dead.map(({ dst }) => `neighbour delete ${dst} dev ${device}`))
  await ip.run(planQuestions(addresses, known, device))
  const answers = await awaitAnswers(ip, device, asked)
  const silent = addresses.filter((address) => answers.get(address) === '')
  await ip.remove(silent.map((address) => `neighbour delete ${address} dev ${device}`))
  return answers
}

/** Plans commands that make the kernel probe the addresses. Skips permanent neighbours, which an operator has set. */
function planQuestions(addresses: readonly string[], known: readonly ShownNeighbour[], device: string): string[] {
  const by = new Map(known.map((neighbour) => [neighbour.dst, neighbour]))
  return addresses.flatMap((address) => {
    const { lladdr, state = [] } = by.get(address) ?? {}
    if (lladdr === undefined) return `neighbour replace ${address} dev ${device} use`
    const isFixed = state.includes('PERMANENT') || state.includes('NOARP')
    return isFixed ? [] : `neighbour replace ${address} lladdr ${lladdr} dev ${device} nud probe`
  })
}

/** Waits until the kernel has an answer for each address or has given up. */
async function awaitAnswers(ip: Ip, device: string, asked: ReadonlySet<string>): Promise<Map<string, string>> {
  const endMs = performance.now() + timeoutMs
  for (;;) {
    const now = await readNeighbours(ip, device, asked)
    const isWaiting = now.some(({ state = [] }) => state.some((is) => undecided.has(is)))
    if (!isWaiting || performance.now() > endMs) {
      const answered = now.filter(({ state = [] }) => !state.some((is) => is === 'FAILED' || undecided.has(is)))
      const macs = new Map(answered.map(({ dst, lladdr = '' }) => [dst, lladdr]))
      return new Map([...asked].map((address) => [address, macs.get(address) ?? '']))
    }
    await delay(pollMs)
  }
}

const undecided = new Set(['INCOMPLETE', 'PROBE', 'NONE'])

async function readNeighbours(ip: Ip, device: string, of: ReadonlySet<string>): Promise<ShownNeighbour[]> {
  const shown = (await ip.list(`neighbour show dev ${device} nud all`)) as ShownNeighbour[]
  return shown.filter(({ dst }) => of.has(dst))
}
