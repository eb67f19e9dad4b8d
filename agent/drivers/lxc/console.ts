import { Duplex } from 'node:stream'
import { lxcConsole, type LxcContainer } from '../../host/lxc.js'

/**
 * The guest's /dev/console as a stream. Several may be open, and each sees all output from then on. Destroying a stream
 * ends lxc-console and nothing in the guest.
 */
export function openConsole(container: LxcContainer): Duplex {
  const child = lxcConsole(container)
  const stream = new Duplex({
    read: () => void child.stdout.resume(),
    write: (chunk: Buffer, _encoding, done) => void child.stdin.write(chunk, done),
    final: (done) => void child.stdin.end(done),
    destroy: (error, done) => (child.kill('SIGKILL'), done(error)),
  })
  child.stdout.on('data', (chunk: Buffer) => {
    if (!stream.push(chunk)) child.stdout.pause()
  })
  child.stdout.on('end', () => stream.push(null))
  child.stderr.resume()
  child.stdin.on('error', () => undefined) // the program ended: `end` reports it
  child.once('error', (cause) => stream.destroy(cause))
  return stream
}
