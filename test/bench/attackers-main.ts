import { Agent, request } from 'node:http'
import { connect } from 'node:net'

/* An attacker who tries to exhaust a gateway until this process is killed. Arguments: `KIND PORT KEY`. */

const [kind = '', port = '0', key = ''] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true, maxSockets: 64 })

const offer = 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n'

const attacks: Readonly<Record<string, () => void>> = {
  h2c: () => lanes(4, () => pipeline(offer)),
  pipeline: () => lanes(Number(key), () => pipeline('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')),
  audit: () => lanes(32, (n) => call('POST', `/api/v1/containers/none-${n % 1000}/start`, '{}')),
  passwords: () =>
    lanes(32, (n) => call('POST', '/api/v1/admins', `{"username":"flood-${n}","password":"correct horse ${n}"}`)),
  logins: () =>
    lanes(32, (n) =>
      call(
        'POST',
        '/api/v1/login',
        `{"username":"nobody-${n}","password":"correct horse ${n}"}`,
        `127.1.${n % 250}.${((n >> 8) % 250) + 1}`,
      ),
    ),
  streams: () => lanes(64, () => call('GET', '/api/v1/events', '')),
}

let count = 0

function lanes(width: number, act: (n: number) => Promise<unknown>): void {
  const lane = async (): Promise<never> => {
    for (;;) await act(count++).catch(() => undefined)
  }
  for (let n = 0; n < width; n++) void lane()
}

/** Sends 20,000 requests on one connection and then closes it. */
function pipeline(text: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port: Number(port) })
    socket
      .on('error', () => undefined)
      .on('close', () => resolve())
      .resume()
    let left = 200
    const send = (): void => {
      if (left-- > 0) socket.write(text.repeat(100), () => setImmediate(send))
      else setTimeout(() => socket.destroy(), 2000)
    }
    send()
  })
}

function call(method: string, path: string, body: string, localAddress?: string): Promise<void> {
  const headers = {
    ...(key !== '' && path !== '/api/v1/login' && { 'x-api-key': key }),
    ...(body !== '' && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
  }
  const at = {
    host: '127.0.0.1',
    port: Number(port),
    ...(localAddress ? { localAddress, agent: false as const } : { agent }),
  }
  return new Promise((resolve, reject) => {
    request({ ...at, method, path, headers }, (response) => {
      response.resume()
      response.once('close', resolve)
    })
      .once('error', reject)
      .end(body)
  })
}

attacks[kind]?.()
