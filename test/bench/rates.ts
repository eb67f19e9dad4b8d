import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { GuestNetwork } from '../../agent/network/contract.js'
import type { Way } from '../support/network/flow.js'
import { AgentNetwork, clientAddress, NetworkLab } from '../support/network/network-lab.js'
import { figure, median, type Figure } from './figures.js'

const shaperProcess = fileURLToPath(new URL('../support/network/shaper-process.ts', import.meta.url))
/** Prefix of all names. If this process is killed, the cleanup of the tests removes everything with this prefix. */
const prefix = 'btestbench'
const interfacePrefix = 'btb'
const rates = [10, 100, 1000]
const ways = ['down', 'up'] as const
/** Duration of one run of iperf3 in seconds. The first second is omitted, because TCP is still accelerating. */
const seconds = 5
/** Maximum number of rounds, because a round takes long and the results differ little. */
const mostRounds = 3

/** Compares the throughput of iperf3 between a guest and an outside client with the configured rate. */
export async function benchRates(rounds: number): Promise<Figure[]> {
  const lab = new NetworkLab(prefix, { subnet: '10.77.0.0/24', interface_prefix: interfacePrefix })
  lab.build()
  try {
    const guest = await plugGuest(lab)
    const shaper = startShaper(lab)
    const figures: Figure[] = []
    for (const mbps of rates) {
      await shaper.call('apply', { device: guest.device, downMbps: mbps, upMbps: mbps })
      for (const way of ways) {
        const reached: number[] = []
        for (let round = 0; round < Math.min(rounds, mostRounds); round++) reached.push(await measure(lab, guest, way))
        figures.push(figure(`${way}, ${mbps} Mbit/s`, 'Mbit/s', { Berth: median(reached), sold: mbps }))
      }
    }
    return figures
  } finally {
    lab.remove()
  }
}

async function plugGuest(lab: NetworkLab): Promise<GuestNetwork> {
  const guest = lab.guest(11)
  const network = lab.agent()
  await network.ensure([guest])
  lab.plug(guest)
  return guest
}

function startShaper({ host }: NetworkLab): AgentNetwork {
  const argv = ['netns', 'exec', host, process.execPath, '--import', 'tsx', shaperProcess, interfacePrefix]
  return new AgentNetwork(spawn('ip', argv, { stdio: ['pipe', 'pipe', 'inherit'] }))
}

/** Runs iperf3. @returns the received payload in Mbit/s */
async function measure(lab: NetworkLab, guest: GuestNetwork, way: Way): Promise<number> {
  const serverArgs = ['netns', 'exec', lab.client, 'iperf3', '--server', '--one-off', '--forceflush']
  const server = spawn('ip', serverArgs, { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(server.stdout, 'data')
  const direction = way === 'down' ? ['--reverse'] : []
  const options = ['--json', '--time', String(seconds), '--omit', '1', ...direction]
  const client = ['netns', 'exec', lab.namespaceOf(guest), 'iperf3', '--client', clientAddress, ...options]
  const { stdout } = await promisify(execFile)('ip', client)
  const { end } = JSON.parse(stdout) as { end: { sum_received: { bits_per_second: number } } }
  return end.sum_received.bits_per_second / 1e6
}
