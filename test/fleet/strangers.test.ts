import { Server } from '@grpc/grpc-js'
import { expect } from 'chai'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { joinGateway } from '../../agent/enrollment/join.js'
import { bind } from '../../agent/rpc/server.js'
import { createServerCredentials } from '../../agent/rpc/tls.js'
import { connectAgent } from '../../gateway/fleet/agents/agent-connection.js'
import { GetGuestUsageResponse, GuestServiceService } from '../../proto/gen/berth/agent/v1/guest.js'
import { splitHostPort } from '../../shared/join-token.js'
import { createTestPki } from '../support/gateway/pki.js'
import { startTestFleet } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

/*
 * Idle connections must not prevent the gateway from reaching an agent, or hosts from joining. These connections are
 * silent before TLS, silent during TLS, or present a certificate of another CA than the private CA.
 */
describe('idle connections of clients without a certificate', function () {
  const sockets = new Set<Socket>()
  afterEach(() => {
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  })

  /** Opens connections without sending anything. @returns a function that counts those that are still open */
  async function flood(address: string, from: readonly string[], perSource: number): Promise<() => number> {
    const { host, port } = splitHostPort(address)
    let open = 0
    const one = (localAddress: string): Promise<void> =>
      new Promise((resolve) => {
        const socket = connect({ host, port, localAddress })
        sockets.add(socket)
        socket.on('error', () => resolve())
        socket.once('connect', () => {
          open++
          socket.once('close', () => open--)
          resolve()
        })
      })
    await Promise.all(from.flatMap((source) => Array.from({ length: perSource }, () => one(source))))
    return () => open
  }
  const manySources = Array.from({ length: 20 }, (_, i) => `127.0.0.${i + 10}`)

  describe('at the join port', () => {
    for (const [name, from, perSource] of [
      ['one source', ['127.0.0.1'], 300],
      ['twenty sources', manySources, 20],
    ] as const)
      it(`from ${name} do not prevent a host from joining`, async () => {
        const test = await startTestFleet()
        try {
          const open = await flood(test.fleet.joinAddress, from, perSource)
          const { id } = await test.fleet.hosts.createHost({ name: 'h', address: '127.0.0.1:1' })
          const { token } = await test.fleet.hosts.createJoinToken(id)
          const identity = await joinGateway(token, join(test.directory, 'identity'))
          expect(identity.hostId).to.equal(id)
          await waitFor(() => open() <= Math.min(256, from.length * 32), { what: 'the oldest have ended' })
        } finally {
          await test.close()
        }
      })

    it('are closed after some time, even if a TLS handshake has begun', async () => {
      const test = await startTestFleet()
      try {
        const { host, port } = splitHostPort(test.fleet.joinAddress)
        const silent = connect({ host, port })
        const secure = connectTls({ host, port, rejectUnauthorized: false })
        for (const socket of [silent, secure]) socket.on('error', () => undefined).resume()
        await waitFor(() => silent.closed && secure.closed, { what: 'both ended' })
      } finally {
        await test.close()
      }
    })
  })

  describe('at the agent’s port', () => {
    it('neither prevent the gateway from connecting nor end its open connections', async () => {
      const pki = await createTestPki()
      const tls = createServerCredentials((await pki.enrol('h-1')).identityDir)
      const server = new Server()
      server.addService(GuestServiceService, {
        getGuestUsage: (_call: unknown, answer: (error: null, value: unknown) => void) =>
          answer(null, GetGuestUsageResponse.create()),
      })
      const bound = await bind(server, '127.0.0.1:0', tls)
      const address = `127.0.0.1:${bound.port}`
      const open = async () =>
        connectAgent({
          hostId: 'h-1',
          address,
          caPems: [pki.authority.caPem],
          silenceMs: 20_000,
          leaf: await pki.gatewayLeaf(),
          isRevoked: () => false,
        })
      const ask = ({ guests }: Awaited<ReturnType<typeof open>>): Promise<string> =>
        new Promise((resolve) =>
          guests.getGuestUsage({ uuid: '' }, (error) => resolve(error ? error.message : 'answered')),
        )
      const [before, after] = [await open(), await open()]
      try {
        expect(await ask(before)).to.equal('answered')
        const left = await flood(address, [...manySources, '127.0.0.1'], 20)
        expect(await ask(after)).to.equal('answered')
        expect(await ask(before)).to.equal('answered')
        await waitFor(() => left() <= 384, { what: 'the oldest have ended' })
        await waitFor(() => left() === 0, { what: 'all have ended in time' })
        expect(await ask(before)).to.equal('answered')
      } finally {
        before.close()
        after.close()
        bound.close()
        server.forceShutdown()
        await pki.remove()
      }
    })
  })
})
