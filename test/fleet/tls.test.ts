import {
  credentials,
  type ChannelCredentials,
  Server,
  ServerCredentials,
  status,
  type ServiceError,
} from '@grpc/grpc-js'
import { expect } from 'chai'
import { X509Certificate } from 'node:crypto'
import { copyFileSync, writeFileSync, rmSync } from 'node:fs'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls, createSecureContext } from 'node:tls'
import { identityPaths } from '../../agent/enrollment/identity.js'
import { joinGateway } from '../../agent/enrollment/join.js'
import { connectAgent } from '../../gateway/fleet/agent-connection.js'
import { openConsole } from '../../gateway/fleet/console-stream.js'
import { ConsoleStart } from '../../proto/gen/berth/agent/v1/console.js'
import { HostServiceClient } from '../../proto/gen/berth/agent/v1/host.js'
import { GuestServiceService, GetGuestUsageResponse } from '../../proto/gen/berth/agent/v1/guest.js'
import { WatchServiceClient } from '../../proto/gen/berth/agent/v1/watch.js'
import { describeError } from '../../shared/errors.js'
import { identityDnsName, identityUri } from '../../shared/identity.js'
import { splitHostPort } from '../../shared/join-token.js'
import { clientAuth, forge, serverAuth, type Forgery, type Pair } from '../support/forge.js'
import { createTestPki, hourMs, type TestPki } from '../support/pki.js'
import { LabAgent } from '../support/lab-agent.js'
import { waitFor } from '../support/wait.js'

const hostId = 'h-1'
const gatewayNames = { uris: [identityUri({ role: 'gateway' })], dnsNames: ['gateway.berth.internal'] }
const agentNames = {
  uris: [identityUri({ role: 'agent', hostId })],
  dnsNames: [identityDnsName({ role: 'agent', hostId })],
}
const otherNames = {
  uris: [identityUri({ role: 'agent', hostId: 'h-2' })],
  dnsNames: [identityDnsName({ role: 'agent', hostId: 'h-2' })],
}

/** What an attacker's library allows: level 0 takes any digest. */
const lax = { ciphers: 'DEFAULT@SECLEVEL=0' }

function clientCredentials(ca: string, pair: Pair | undefined): ChannelCredentials {
  const own = pair ? { key: pair.privateKeyPem, cert: pair.certificatePem } : {}
  return credentials.createFromSecureContext(createSecureContext({ ca, ...own, ...lax }), {
    checkServerIdentity: () => undefined,
  })
}

class AnyServerCredentials extends ServerCredentials {
  constructor(ca: string, pair: Pair) {
    const own = { key: pair.privateKeyPem, cert: pair.certificatePem }
    super({ requestCert: true, ...lax }, { ca, ...own, ...lax })
  }
  override _equals(other: ServerCredentials): boolean {
    return this === other
  }
}

/** Twelve certificates that no honest peer shows, given what a good one of that side has. */
function badCertificates(good: Required<Pick<Forgery, 'uris' | 'dnsNames' | 'usages'>>, wrongRole: Forgery) {
  return [
    ['self-signed', { ...good, selfSigned: true }],
    ['expired', { ...good, notBeforeMs: Date.now() - 2 * hourMs, notAfterMs: Date.now() - hourMs }],
    ['not valid yet', { ...good, notBeforeMs: Date.now() + hourMs, notAfterMs: Date.now() + 2 * hourMs }],
    ['of another host', { ...good, ...otherNames }],
    ['of the other role', { ...good, ...wrongRole }],
    ['without extended key usage', { ...good, usages: [] }],
    [
      'with the other extended key usage',
      { ...good, usages: [good.usages[0] === clientAuth ? serverAuth : clientAuth] },
    ],
    ['with a common name only', { ...good, uris: [], dnsNames: [], commonName: good.dnsNames[0]! }],
    ['with a wildcard', { ...good, uris: [], dnsNames: ['*.berth.internal', '*.agent.berth.internal'] }],
    ['with a wildcard beside the role', { ...good, dnsNames: ['*.agent.berth.internal'] }],
    ['with two roles', { ...good, uris: [...good.uris, ...otherNames.uris] }],
    ['signed with SHA-1', { ...good, hash: 'SHA-1' }],
    ['that is an authority', { ...good, isAuthority: true }],
  ] as const
}

describe('certificates of peers', function () {
  this.timeout(120_000)
  let pki: TestPki
  let ca: Pair
  let otherCa: Pair

  before(async () => {
    pki = await createTestPki()
    ca = { certificatePem: pki.authority.caPem, privateKeyPem: pki.authority.privateKeyPem }
    otherCa = await forge({ isAuthority: true, commonName: 'Another CA' })
  })
  after(() => pki.remove())

  const make = ({ selfSigned, ...forgery }: Forgery & { selfSigned?: boolean }): Promise<Pair> =>
    forge(selfSigned ? forgery : { ...forgery, issuer: ca })

  describe('at the agent', () => {
    let agent: LabAgent
    before(async () => {
      agent = await LabAgent.start({ identityDir: (await pki.enrol(hostId)).identityDir })
    })
    after(() => agent.destroy())

    async function describeAs(pair: Pair | undefined): Promise<number | 'answered'> {
      const client = new HostServiceClient(agent.address, clientCredentials(ca.certificatePem, pair), {
        'grpc.use_local_subchannel_pool': 1,
      })
      try {
        return await new Promise((resolve) =>
          client.describe({}, { deadline: Date.now() + 5000 } as never, (error: ServiceError | null) =>
            resolve(error ? error.code : 'answered'),
          ),
        )
      } finally {
        client.close()
      }
    }

    /** Whether a console's connection is answered, and until when: `ended` is false while it is open. */
    function openConsoleAs(pair: Pair | undefined, isSilent = false): { answers: string[]; ended: boolean } {
      const own = pair ? { key: pair.privateKeyPem, cert: pair.certificatePem } : {}
      const seen = { answers: [] as string[], ended: false }
      const stream = openConsole(
        {
          options: {
            ...splitHostPort(agent.address),
            ...{ ca: ca.certificatePem, ...own, ...lax, checkServerIdentity: () => undefined },
            servername: identityDnsName({ role: 'agent', hostId }),
          },
          check: () => undefined,
        },
        {
          onMessage: ({ $case }) => seen.answers.push($case),
          onEnd: ({ code }) => {
            seen.answers.push(status[code])
            seen.ended = true
          },
        },
      )
      if (!isSilent)
        stream.send({ $case: 'start', value: ConsoleStart.create({ guestUuid: 'none', mode: 'shell' }) })
      return seen
    }

    async function consoleAs(pair: Pair | undefined): Promise<string> {
      const seen = openConsoleAs(pair)
      await waitFor(() => seen.ended, { what: 'an answer' })
      return seen.answers.join()
    }

    /** A stream of the agent that was called, and how it ends. */
    function openWatch(pair: Pair): { heard: () => number; ended: Promise<number> } {
      const client = new WatchServiceClient(agent.address, clientCredentials(ca.certificatePem, pair), {
        'grpc.use_local_subchannel_pool': 1,
      })
      const stream = client.watch({ epoch: '', revision: 0 })
      let heard = 0
      stream.on('data', () => heard++)
      const ended = new Promise<number>((resolve) =>
        stream.on('error', ({ code }: ServiceError) => resolve(code)),
      ).finally(() => client.close())
      return { heard: () => heard, ended }
    }

    it("the gateway's is accepted", async () => {
      expect(await describeAs(await pki.gatewayLeaf())).to.equal('answered')
      expect(await describeAs(await forge({ ...gatewayNames, usages: [clientAuth], issuer: ca }))).to.equal(
        'answered',
      )
    })

    it("the gateway's is accepted for a console", async () => {
      expect(await consoleAs(await pki.gatewayLeaf())).to.equal('NOT_FOUND')
    })

    it('none is refused', async () => {
      expect(await describeAs(undefined)).to.equal(status.UNAVAILABLE)
      expect(await consoleAs(undefined)).to.equal('UNAVAILABLE')
    })

    for (const [name, forgery] of badCertificates({ ...gatewayNames, usages: [clientAuth] }, agentNames))
      it(`one ${name} is refused`, async () => {
        const pair = await make(forgery)
        expect(await describeAs(pair)).to.be.oneOf([status.UNAVAILABLE, status.UNAUTHENTICATED])
        expect(await consoleAs(pair)).to.be.oneOf(['UNAVAILABLE', 'UNAUTHENTICATED'])
      })

    it('one of another authority is refused, also when it brings that authority along', async () => {
      const pair = await forge({ ...gatewayNames, usages: [clientAuth], issuer: otherCa })
      expect(await describeAs(pair)).to.equal(status.UNAVAILABLE)
      const chain = pair.certificatePem + otherCa.certificatePem
      expect(await describeAs({ ...pair, certificatePem: chain })).to.equal(status.UNAVAILABLE)
    })

    it("the agent's own is refused as gateway", async () => {
      const { certificatePem, privateKeyPem } = agent.tls.identity()
      expect(await describeAs({ certificatePem, privateKeyPem })).to.equal(status.UNAVAILABLE)
    })

    it('a revoked one is refused, the next is accepted', async () => {
      const { identityDir } = await pki.enrol('h-revoking')
      const revoking = await LabAgent.start({ identityDir })
      const [bad, good] = [await pki.gatewayLeaf(), await pki.gatewayLeaf()]
      const own = agent
      agent = revoking
      try {
        expect(await describeAs(bad)).to.equal('answered')
        const watch = openWatch(bad)
        await waitFor(() => watch.heard() > 0)
        writeFileSync(identityPaths(identityDir).revoked, `${bad.serial.toLowerCase()}\n`)
        await waitFor(async () => (await describeAs(bad)) === status.UNAUTHENTICATED)
        expect(await consoleAs(bad)).to.equal('UNAUTHENTICATED')
        expect(await describeAs(good)).to.equal('answered')
        expect(await watch.ended).to.equal(status.UNAUTHENTICATED)
      } finally {
        rmSync(identityPaths(identityDir).revoked)
        agent = own
        await revoking.destroy()
      }
    })

    it('the former gateway is out at once when the agent has joined another, also on open connections', async () => {
      const { identityDir } = await pki.enrol('h-moving')
      const moving = await LabAgent.start({ identityDir })
      const other = await createTestPki()
      const own = agent
      agent = moving
      try {
        const watch = openWatch(await pki.gatewayLeaf())
        const silent = openConsoleAs(await pki.gatewayLeaf(), true)
        const client = new HostServiceClient(
          moving.address,
          clientCredentials(ca.certificatePem, await pki.gatewayLeaf()),
        )
        const call = (): Promise<number | 'answered'> =>
          new Promise((resolve) => client.describe({}, (error) => resolve(error ? error.code : 'answered')))
        expect(await call()).to.equal('answered')
        await waitFor(() => watch.heard() > 0)
        const { identityDir: joined } = await other.enrol('h-moving')
        copyFileSync(identityPaths(joined).identity, identityPaths(identityDir).identity)
        moving.tls.reload()
        expect(await call()).to.be.oneOf([status.UNAUTHENTICATED, status.UNAVAILABLE])
        const heard = watch.heard()
        expect(await watch.ended).to.be.oneOf([status.UNAUTHENTICATED, status.UNAVAILABLE])
        expect(watch.heard()).to.equal(heard)
        await waitFor(() => silent.ended, { what: 'the end of a console' })
        expect(await call()).to.equal(status.UNAVAILABLE)
        client.close()
      } finally {
        agent = own
        await moving.destroy()
        await other.remove()
      }
    })

    it('a connection that outlives its certificate is refused', async () => {
      const leaf = await pki.authority.issue({ role: 'gateway' }, 5000)
      const client = new HostServiceClient(agent.address, clientCredentials(ca.certificatePem, leaf), {
        'grpc.use_local_subchannel_pool': 1,
      })
      const call = (): Promise<number | 'answered'> =>
        new Promise((resolve) => client.describe({}, (error) => resolve(error ? error.code : 'answered')))
      expect(await call()).to.equal('answered')
      await new Promise((resolve) => setTimeout(resolve, leaf.notAfterMs - Date.now() + 50))
      expect(await call()).to.equal(status.UNAUTHENTICATED)
      client.close()
    })

    it('TLS 1.2 is refused', async () => {
      const leaf = await pki.gatewayLeaf()
      const code = await new Promise((resolve) => {
        const [host, port] = agent.address.split(':') as [string, string]
        const socket = connectTls({
          ...{ host, port: Number(port), ca: ca.certificatePem, maxVersion: 'TLSv1.2' },
          ...{ key: leaf.privateKeyPem, cert: leaf.certificatePem, checkServerIdentity: () => undefined },
        })
        socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code))
        socket.on('secureConnect', () => resolve('connected'))
      })
      expect(code).to.equal('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION')
    })
  })

  describe('at the gateway', () => {
    /** A server with any certificate, and how many calls reached it. */
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
      const tls = pair
        ? new AnyServerCredentials(ca.certificatePem, pair)
        : ServerCredentials.createInsecure()
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
        ...{ hostId, address: server.address, caPem: ca.certificatePem, silenceMs: 5000 },
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

    it("the host's is accepted", async () => {
      const pair = await forge({ ...agentNames, usages: [serverAuth], issuer: ca })
      expect(await callAs(pair)).to.deep.equal({ calls: 1, code: 'answered' })
    })

    const refused = { calls: 0, code: status.UNAVAILABLE }
    for (const [name, forgery] of badCertificates({ ...agentNames, usages: [serverAuth] }, gatewayNames))
      it(`one ${name} is refused`, async () => {
        expect(await callAs(await make(forgery))).to.deep.equal(refused)
      })

    it('one of another authority is refused, also when it brings that authority along', async () => {
      const pair = await forge({ ...agentNames, usages: [serverAuth], issuer: otherCa })
      expect(await callAs(pair)).to.deep.equal(refused)
      const chain = pair.certificatePem + otherCa.certificatePem
      expect(await callAs({ ...pair, certificatePem: chain })).to.deep.equal(refused)
    })

    it('a revoked one and a server without TLS are refused', async () => {
      expect(
        await callAs(await forge({ ...agentNames, usages: [serverAuth], issuer: ca }), true),
      ).to.deep.equal(refused)
      expect(await callAs(undefined)).to.deep.equal(refused)
    })
  })

  describe('at the agent that joins', () => {
    const names = {
      uris: [identityUri({ role: 'join' })],
      dnsNames: [identityDnsName({ role: 'join' })],
    }

    /** What joining says of a gateway with any certificate, and what it sent there. */
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
        ...{ sub: hostId, address: `127.0.0.1:${port}`, exp: 9e9 },
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

    it("the gateway's is accepted, and refuses the token", async () => {
      const { sent, error } = await joinAt(await forge({ ...names, usages: [serverAuth], issuer: ca }))
      expect(sent).to.include('berth_jt_x')
      expect(error).to.include('401')
    })

    for (const [name, forgery] of badCertificates({ ...names, usages: [serverAuth] }, gatewayNames))
      it(`one ${name} is refused, and told nothing`, async () => {
        const { sent, error } = await joinAt(await make(forgery))
        expect([sent, error], error).not.to.include('joined')
        expect(sent).to.equal('')
      })
  })
})
