import { credentials, type ChannelCredentials, status, type ServiceError } from '@grpc/grpc-js'
import { expect } from 'chai'
import { copyFileSync, writeFileSync, rmSync } from 'node:fs'
import { connect as connectTls, createSecureContext } from 'node:tls'
import { identityPaths } from '../../agent/enrollment/identity.js'
import { openConsole } from '../../gateway/fleet/console-stream.js'
import { ConsoleStart } from '../../proto/gen/berth/agent/v1/console.js'
import { HostServiceClient } from '../../proto/gen/berth/agent/v1/host.js'
import { WatchServiceClient } from '../../proto/gen/berth/agent/v1/watch.js'
import { identityDnsName } from '../../shared/identity.js'
import { splitHostPort } from '../../shared/join-token.js'
import { clientAuth, forge, type Pair } from '../support/attacks/forge.js'
import { createTestPki, type TestPki } from '../support/gateway/pki.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import {
  agentNames,
  badCertificates,
  createPeerCertificates,
  gatewayNames,
  hostId,
  lax,
  type PeerCertificates,
} from '../support/gateway/peer-certificates.js'
import { waitFor } from '../support/wait.js'

function clientCredentials(ca: string, pair: Pair | undefined): ChannelCredentials {
  const own = pair ? { key: pair.privateKeyPem, cert: pair.certificatePem } : {}
  return credentials.createFromSecureContext(createSecureContext({ ca, ...own, ...lax }), {
    checkServerIdentity: () => undefined,
  })
}

describe('certificates of clients that call the agent', function () {
  let pki: TestPki
  let ca: Pair
  let otherCa: Pair
  let make: PeerCertificates['make']

  before(async () => {
    ;({ pki, ca, otherCa, make } = await createPeerCertificates())
  })
  after(() => pki.remove())

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
        client.describe({}, { deadline: Date.now() + 60_000 } as never, (error: ServiceError | null) =>
          resolve(error ? error.code : 'answered'),
        ),
      )
    } finally {
      client.close()
    }
  }

  /** Opens a console. @returns the answers so far, and whether the connection has ended */
  function openConsoleAs(pair: Pair | undefined, isSilent = false): { answers: string[]; ended: boolean } {
    const own = pair ? { key: pair.privateKeyPem, cert: pair.certificatePem } : {}
    const seen = { answers: [] as string[], ended: false }
    const stream = openConsole(
      {
        options: {
          ...splitHostPort(agent.address),
          ca: ca.certificatePem,
          ...own,
          ...lax,
          checkServerIdentity: () => undefined,
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
    if (!isSilent) stream.send({ $case: 'start', value: ConsoleStart.create({ guestUuid: 'none', mode: 'shell' }) })
    return seen
  }

  async function consoleAs(pair: Pair | undefined): Promise<string> {
    const seen = openConsoleAs(pair)
    await waitFor(() => seen.ended, { what: 'an answer' })
    return seen.answers.join()
  }

  /** Opens a watch of the agent. @returns the number of its messages so far, and the code with which it ends */
  function openWatch(pair: Pair): { heard: () => number; ended: Promise<number> } {
    const client = new WatchServiceClient(agent.address, clientCredentials(ca.certificatePem, pair), {
      'grpc.use_local_subchannel_pool': 1,
    })
    const stream = client.watch({ epoch: '', revision: 0, acceptsGuestBatches: false })
    let heard = 0
    stream.on('data', () => heard++)
    const ended = new Promise<number>((resolve) =>
      stream.on('error', ({ code }: ServiceError) => resolve(code)),
    ).finally(() => client.close())
    return { heard: () => heard, ended }
  }

  it('are accepted if they name the gateway', async () => {
    expect(await describeAs(await pki.gatewayLeaf())).to.equal('answered')
    expect(await describeAs(await forge({ ...gatewayNames, usages: [clientAuth], issuer: ca }))).to.equal('answered')
  })

  it('are accepted for consoles if they name the gateway', async () => {
    expect(await consoleAs(await pki.gatewayLeaf())).to.equal('NOT_FOUND')
  })

  it('are required for calls and consoles', async () => {
    expect(await describeAs(undefined)).to.equal(status.UNAVAILABLE)
    expect(await consoleAs(undefined)).to.equal('UNAVAILABLE')
  })

  for (const [name, forgery] of badCertificates({ ...gatewayNames, usages: [clientAuth] }, agentNames))
    it(`are refused if they ${name}`, async () => {
      const pair = await make(forgery)
      expect(await describeAs(pair)).to.be.oneOf([status.UNAVAILABLE, status.UNAUTHENTICATED])
      expect(await consoleAs(pair)).to.be.oneOf(['UNAVAILABLE', 'UNAUTHENTICATED'])
    })

  it('are refused if a different CA issued them, even if the client also sends this CA’s certificate', async () => {
    const pair = await forge({ ...gatewayNames, usages: [clientAuth], issuer: otherCa })
    expect(await describeAs(pair)).to.equal(status.UNAVAILABLE)
    const chain = pair.certificatePem + otherCa.certificatePem
    expect(await describeAs({ ...pair, certificatePem: chain })).to.equal(status.UNAVAILABLE)
  })

  it('are refused if they are the certificate of the agent itself', async () => {
    const { certificatePem, privateKeyPem } = agent.tls.identity()
    expect(await describeAs({ certificatePem, privateKeyPem })).to.equal(status.UNAVAILABLE)
  })

  it('are refused as soon as they are revoked, even on open connections, while other certificates are still accepted', async () => {
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

  it('are refused if they belong to the agent’s former gateway, even on open connections', async () => {
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

  it('end an open connection when they expire', async () => {
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

  it('are refused on connections with TLS 1.2', async () => {
    const leaf = await pki.gatewayLeaf()
    const code = await new Promise((resolve) => {
      const [host, port] = agent.address.split(':') as [string, string]
      const socket = connectTls({
        host,
        port: Number(port),
        ca: ca.certificatePem,
        maxVersion: 'TLSv1.2',
        key: leaf.privateKeyPem,
        cert: leaf.certificatePem,
        checkServerIdentity: () => undefined,
      })
      socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code))
      socket.on('secureConnect', () => resolve('connected'))
    })
    expect(code).to.equal('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION')
  })
})
