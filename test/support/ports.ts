import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

const given = new Set<number>()

/**
 * A loopback port that nobody listens on now, another each time. Of those that the kernel gives to nobody by itself:
 * it is still free when a daemon that was killed comes back to it. Above 10080, which browsers refuse.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_100, 20_000)
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((done) => {
    const server = createServer().once('error', () => done(false))
    server.listen(port, '127.0.0.1', () => server.close(() => done(true)))
  })
}
