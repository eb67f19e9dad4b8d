import { existsSync } from 'node:fs'
import { joinGateway } from '../../agent/enrollment/join.js'
import { WatchHost } from './watch-host.js'

/*
 * Simulated hosts as one process. It reads one JSON line, { hosts: [{ identityDir, token, listen, guests, firstId }],
 * changesPerSecond }, joins and serves all hosts, and prints `serving`. It ends when its standard input ends.
 */

interface Order {
  readonly hosts: readonly {
    identityDir: string
    token: string
    listen: string
    guests: number
    firstId: number
  }[]
  /** Number of changes per host and second. Each change concerns one guest. */
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
  // Starts the timers of the hosts at different times, because real hosts are independent of each other.
  serving.forEach((host, n) =>
    setTimeout(() => setInterval(() => host.tick(changesPerSecond), 1000), (n * 1000) / serving.length),
  )
  process.stdout.write('serving\n')
}
