import { existsSync } from 'node:fs'
import { joinGateway } from '../../agent/enrollment/join.js'
import { WatchHost } from './watch-host.js'

/*
 * Simulated hosts as one process: reads one JSON line, { hosts: [{ identityDir, token, listen, guests, firstId }],
 * changesPerSecond }, joins and serves each, prints `serving`, and ends with its standard input.
 */

interface Order {
  readonly hosts: readonly {
    identityDir: string
    token: string
    listen: string
    guests: number
    firstId: number
  }[]
  /** Number of changes per host; each changes one of its guests. */
  readonly changesPerSecond: number
}

let text = ''
process.stdin.on('data', (chunk: Buffer) => {
  text += chunk.toString()
  if (!text.endsWith('\n')) return
  void serve(JSON.parse(text) as Order)
})
process.stdin.on('end', () => process.exit(0))

async function serve({ hosts, changesPerSecond }: Order): Promise<void> {
  const serving: WatchHost[] = []
  for (const host of hosts) {
    if (!existsSync(host.identityDir)) await joinGateway(host.token, host.identityDir)
    serving.push(await WatchHost.start(host))
  }
  // Spread over time, since real hosts are independent of each other.
  serving.forEach((host, n) =>
    setTimeout(() => setInterval(() => host.tick(changesPerSecond), 1000), (n * 1000) / serving.length),
  )
  process.stdout.write('serving\n')
}
