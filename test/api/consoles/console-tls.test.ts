import { request as httpsRequest } from 'node:https'
import { expect } from 'chai'
import { WebSocket } from 'ws'
import { ConsoleLab, ownProtocol } from '../../support/gateway/console-lab.js'
import { freePort } from '../../support/ports.js'
import { SubUserCalls } from '../../support/gateway/sub-user-calls.js'
import { TestAuthority } from '../../support/gateway/tls-material.js'
import { waitFor } from '../../support/wait.js'

const name = 'panel.example'

describe('consoles over the gateway’s TLS', function () {
  let lab: ConsoleLab
  let authority: TestAuthority
  let port = 0

  before(async () => {
    authority = await TestAuthority.create()
    port = await freePort()
    const listen = { host: '127.0.0.1', port }
    lab = await ConsoleLab.start({ tls: { listen, roots: [authority.rootPem] } })
    const { certPem, keyPem } = await authority.issue(name)
    const { status, text } = await lab.gateway.request('PUT', '/ssl', {
      body: { mode: 'uploaded', target: name, cert_pem: certPem, key_pem: keyPem },
    })
    expect(status, text).to.equal(200)
  })
  after(() => lab.close())

  const open = (ticket: string, container: string, headers: Record<string, string>) => {
    // A separate constant, because the types of `ws` lack `servername`. At run time, `ws` passes it on to TLS.
    const tlsOptions = { ca: authority.rootPem, servername: name, headers: { host: `${name}:${port}`, ...headers } }
    const socket = new WebSocket(
      `wss://127.0.0.1:${port}/api/v1/ssh?container=${container}`,
      [ownProtocol, `berth-ticket.${ticket}`],
      tlsOptions,
    )
    const said: string[] = []
    let end = 0
    socket.on('message', (bytes: Buffer) => said.push(bytes.toString()))
    socket.on('unexpected-response', (_request, response) => (end = response.statusCode ?? 0))
    socket.on('close', (code) => (end = code))
    socket.on('error', () => undefined)
    return { socket, said, ended: () => waitFor(() => end || undefined, { what: 'an end' }) }
  }

  it('require an https origin and the session cookie for TLS', async () => {
    const guest = await lab.addGuest()
    const calls = new SubUserCalls(lab.gateway)
    const as = await calls.headers(await calls.makeAdmin('root'))
    const ticket = () => lab.ticket(guest.name, { as })
    const [page, cookie] = [`https://${name}:${port}`, `__Host-${as.cookie}`]
    expect(await open(await ticket(), guest.name, { origin: `http://${name}:${port}`, cookie }).ended()).to.equal(403)
    expect(await open(await ticket(), guest.name, { origin: page, cookie: as.cookie }).ended()).to.equal(4401)
    const { socket, said } = open(await ticket(), guest.name, { origin: page, cookie })
    await waitFor(() => said.some((text) => text.includes('"ready"')), { what: () => said.join() })
    socket.send(Buffer.from('typed'))
    await waitFor(() => lab.terminal(guest).input === 'typed', { what: 'input' })
    socket.close()
  })

  it('open only at the endpoint for consoles, and other endpoints ignore the header Upgrade', async () => {
    const guest = await lab.addGuest()
    const body = JSON.stringify({ container_name: guest.name })
    const answer = await new Promise<{ status: number; text: string }>((resolve, reject) => {
      const sent = httpsRequest(
        {
          host: '127.0.0.1',
          port,
          servername: name,
          ca: authority.rootPem,
          method: 'POST',
          path: '/api/v1/ssh-ticket',
          headers: {
            'x-api-key': lab.gateway.adminKey,
            'content-type': 'application/json',
            connection: 'Upgrade',
            upgrade: 'h2c',
            'content-length': Buffer.byteLength(body),
          },
        },
        (response) => {
          let text = ''
          response.on('data', (chunk: Buffer) => (text += chunk.toString()))
          response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })
    expect(answer.status, answer.text).to.equal(200)
  })
})
