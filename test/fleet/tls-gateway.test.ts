import { Server, ServerCredentials, status } from '@grpc/grpc-js'
import { expect } from 'chai'
import { X509Certificate } from 'node:crypto'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { joinGateway } from '../../agent/enrollment/join.js'
import { connectAgent } from '../../gateway/fleet/agents/agent-connection.js'
import { GuestServiceService, GetGuestUsageResponse } from '../../proto/gen/berth/agent/v1/guest.js'
import { describeError } from '../../shared/errors.js'
import { identityDnsName, identityUri } from '../../shared/identity.js'
import { forge, serverAuth, type Pair } from '../support/attacks/forge.js'
import {
  agentNames,
  badCertificates,
  createPeerCertificates,
  gatewayNames,
  hostId,
  lax,
  type PeerCertificates,
} from '../support/gateway/peer-certificates.js'
import type { TestPki } from '../support/gateway/pki.js'

class AnyServerCredentials extends ServerCredentials {
  constructor(ca: string, pair: Pair) {
    const own = { key: pair.privateKeyPem, cert: pair.certificatePem }
    super({ requestCert: true, ...lax }, { ca, ...own, ...lax })
  }
  override _equals(other: ServerCredentials): boolean {
    return this === other
  }
}

describe('certificates of servers', function () {
  let pki: TestPki
  let ca: Pair
  let otherCa: Pair
  let make: PeerCertificates['make']

  before(async () => {
    ;({ pki, ca, otherCa, make } = await createPeerCertificates())
  })
  after(() => pki.remove())

  describe('that the gateway calls', () => {
    /** Starts a server with this certificate, and counts the calls that reach it. */
    async function serveAs(
      pair: Pair | undefined,
    ): Promise<{ address: string; calls: () => number; stop: () => void }> {
      let calls = 0
      const server = new Server()
      server.addService(GuestServiceService, {
        getGuestUsage: (_call: unknown, callback: (error: null, value: unknown) => void) => {
          calls++
          callback(null, GetGuestUsageResponse.create())
        },
      })
      const tls = pair ? new AnyServerCredentials(ca.certificatePem, pair) : ServerCredentials.createInsecure()
      const port = await new Promise<number>((resolve, reject) =>
        server.bindAsync('127.0.0.1:0', tls, (error, bound) => (error ? reject(error) : resolve(bound))),
      )
      return { address: `127.0.0.1:${port}`, calls: () => calls, stop: () => server.forceShutdown() }
    }

    async function callAs(
      pair: Pair | undefined,
      isRevoked = false,
    ): Promise<{ calls: number; code: number | 'answered' }> {
      const server = await serveAs(pair)
      const connection = connectAgent({
        hostId,
        address: server.address,
        caPems: [ca.certificatePem],
        silenceMs: 5000,
        leaf: await pki.gatewayLeaf(),
        isRevoked: () => isRevoked,
      })
      const code = await new Promise<number | 'answered'>((resolve) =>
        connection.guests.getGuestUsage({ uuid: '' }, (error) => resolve(error ? error.code : 'answered')),
      )
      connection.close()
      server.stop()
      return { calls: server.calls(), code }
    }

    it('are accepted if they name the host', async () => {
      const pair = await forge({ ...agentNames, usages: [serverAuth], issuer: ca })
      expect(await callAs(pair)).to.deep.equal({ calls: 1, code: 'answered' })
    })

    const refused = { calls: 0, code: status.UNAVAILABLE }
    for (const [name, forgery] of badCertificates({ ...agentNames, usages: [serverAuth] }, gatewayNames))
      it(`are refused if they ${name}`, async () => {
        expect(await callAs(await make(forgery))).to.deep.equal(refused)
      })

    it('are refused if a different CA issued them, even if the server also sends this CA’s certificate', async () => {
      const pair = await forge({ ...agentNames, usages: [serverAuth], issuer: otherCa })
      expect(await callAs(pair)).to.deep.equal(refused)
      const chain = pair.certificatePem + otherCa.certificatePem
      expect(await callAs({ ...pair, certificatePem: chain })).to.deep.equal(refused)
    })

    it('are refused if they are revoked, and servers without TLS are also refused', async () => {
      expect(await callAs(await forge({ ...agentNames, usages: [serverAuth], issuer: ca }), true)).to.deep.equal(
        refused,
      )
      expect(await callAs(undefined)).to.deep.equal(refused)
    })
  })

  describe('that a joining host calls', () => {
    const names = {
      uris: [identityUri({ role: 'join' })],
      dnsNames: [identityDnsName({ role: 'join' })],
    }

    /** Joins a gateway with this certificate. @returns the error, and the text that the agent sent */
    async function joinAt(pair: Pair): Promise<{ sent: string; error: string }> {
      let sent = ''
      const own = { key: pair.privateKeyPem, cert: pair.certificatePem + ca.certificatePem }
      const server = createHttpsServer({ ...own, ...lax }, (request, response) => {
        request.on('data', (chunk: Buffer) => (sent += chunk.toString()))
        request.on('end', () => response.writeHead(401).end('{}'))
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const { port } = server.address() as AddressInfo
      const fingerprint = new X509Certificate(ca.certificatePem).fingerprint256
      const content = {
        sub: hostId,
        address: `127.0.0.1:${port}`,
        exp: 9e9,
        ca: fingerprint.replaceAll(':', '').toLowerCase(),
      }
      const token = `berth_jt_x.${Buffer.from(JSON.stringify(content)).toString('base64url')}.x`
      try {
        await joinGateway(token, join(pki.directory, 'joining'))
        return { sent, error: 'joined' }
      } catch (error) {
        return { sent, error: describeError(error) }
      } finally {
        server.closeAllConnections()
        server.close()
      }
    }

    it('are accepted if they name the gateway, which then gets the token', async () => {
      const { sent, error } = await joinAt(await forge({ ...names, usages: [serverAuth], issuer: ca }))
      expect(sent).to.include('berth_jt_x')
      expect(error).to.include('401')
    })

    for (const [name, forgery] of badCertificates({ ...names, usages: [serverAuth] }, gatewayNames))
      it(`are refused before the token is sent if they ${name}`, async () => {
        const { sent, error } = await joinAt(await make(forgery))
        expect([sent, error], error).not.to.include('joined')
        expect(sent).to.equal('')
      })
  })
})
