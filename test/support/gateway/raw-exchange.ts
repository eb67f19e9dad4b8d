import { connect } from 'node:net'
import type { TestGateway } from './test-gateway.js'

/** Sends bytes to the gateway unchanged. @returns its answer */
export function exchange(gateway: Pick<TestGateway, 'url'>, text: string): Promise<string> {
  const { hostname, port } = new URL(gateway.url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(text))
    let answer = ''
    const done = () => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(30_000, () => reject(new Error(`no answer to ${text.slice(0, 60)}: ${answer}`)))
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1')
      if (/\r\n\r\n[^]*\}$/.test(answer)) done()
    })
    socket.on('close', done)
    socket.on('error', () => (answer === '' ? reject(new Error('reset without an answer')) : done()))
  })
}
