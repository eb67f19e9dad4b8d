import { expect } from 'chai'
import jwt from 'jsonwebtoken'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { createCsrPem, createPrivateKeyPem } from '../../agent/enrollment/csr.js'
import { getIdentity } from '../../agent/enrollment/identity.js'
import { joinGateway } from '../../agent/enrollment/join.js'
import { ensureAuthority } from '../../gateway/pki/authority.js'
import { joinPath, parseJoinToken } from '../../shared/join-token.js'
import { describeError } from '../../shared/errors.js'
import { postToJoinEndpoint } from '../support/gateway/join-endpoint.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { codeOf, startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

describe('a host that joins', function () {
  let redis: TestRedis
  before(async () => (redis = await startTestRedis()))
  after(() => redis.stop())
  let test: TestFleet
  let hostId: string
  let count = 0
  afterEach(() => test.close())
  beforeEach(async () => {
    test = await startTestFleet({}, { redis })
    hostId = (await test.fleet.hosts.createHost({ name: `host-${++count}`, address: '127.0.0.1:1' })).id
  })

  const directory = (): string => join(test.directory, `identity-${count}`)
  const newToken = async (): Promise<string> => (await test.fleet.hosts.createJoinToken(hostId)).token

  async function joinError(token: string): Promise<string> {
    try {
      await joinGateway(token, directory())
      return 'joined'
    } catch (error) {
      return describeError(error)
    }
  }

  const post = (body: string, path = joinPath) => postToJoinEndpoint(test.fleet.joinAddress, path, body)

  it('can send only one request per connection, and the gateway closes the connection after the answer', async () => {
    const [host, port] = test.fleet.joinAddress.split(':')
    const socket = connect({ host, port: Number(port), rejectUnauthorized: false })
    let text = ''
    socket.on('error', () => undefined).on('data', (chunk: Buffer) => (text += chunk.toString()))
    const closed = new Promise((resolve) => socket.once('close', resolve))
    const offer = 'Connection: Upgrade\r\nUpgrade: h2c\r\n'
    socket.write(`GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n${offer}\r\n`.repeat(20))
    await closed
    expect(text).to.match(/^HTTP\/1\.1 404 .*\r\nConnection: close\r\n/is)
    expect(text.match(/HTTP\/1\.1 404/g)).to.have.length(1)
  })

  it('gets a certificate that only root can read', async () => {
    const identity = await joinGateway(await newToken(), directory())
    expect(identity.hostId).to.equal(hostId)
    expect(getIdentity(directory()).serial).to.equal(identity.serial)
    expect(statSync(directory()).mode & 0o777).to.equal(0o700)
    expect(statSync(join(directory(), 'identity.pem')).mode & 0o777).to.equal(0o600)
    expect(test.fleet.view.findHost(hostId)?.certificateNotAfterMs).to.equal(identity.notAfterMs)
    expect(test.fleet.view.findHost(hostId)?.state).to.equal('offline')
  })

  it('gets an address in the store during the join if no address was stored for it', async () => {
    const { id } = await test.fleet.hosts.createHost({ name: `unknown-${count}` })
    const { token } = await test.fleet.hosts.createJoinToken(id)
    await joinGateway(token, directory(), 7)
    expect(test.fleet.view.findHost(id)?.address).to.equal('127.0.0.1:7')
  })

  it('is refused if another host has its address, and its token stays valid', async () => {
    const { id } = await test.fleet.hosts.createHost({ name: `unknown-${count}` })
    const { token } = await test.fleet.hosts.createJoinToken(id)
    expect(await codeOf(joinGateway(token, directory(), 1))).to.equal('address_in_use')
    await joinGateway(token, directory(), 7)
  })

  it('keeps the address that the fleet already knows', async () => {
    await joinGateway(await newToken(), directory(), 7)
    expect(test.fleet.view.findHost(hostId)?.address).to.equal('127.0.0.1:1')
  })

  it('can use its token only once, even in twenty concurrent attempts', async () => {
    const token = await newToken()
    const results = await Promise.all(Array.from({ length: 20 }, () => joinError(token)))
    expect(results.filter((result) => result === 'joined')).to.have.length(1)
    expect(await joinError(token)).to.contain('already used')
  })

  it('is refused if its token was replaced by a newer token, or if the host was removed', async () => {
    const [first, second] = [await newToken(), await newToken()]
    expect(await joinError(first)).to.contain('replaced by a newer one')
    await test.fleet.hosts.removeHost(hostId, { force: false })
    expect(await joinError(second)).to.contain('already used or replaced')
    expect(existsSync(directory())).to.equal(false)
  })

  it('is refused with a forged, altered or expired token', async () => {
    const token = await newToken()
    const { address, caFingerprint } = parseJoinToken(token)
    const payload = { ca: caFingerprint, address }
    const { authority } = await startOtherAuthority()
    const options = {
      algorithm: 'ES256' as const,
      issuer: 'berth-gateway',
      audience: 'berth-join',
      subject: hostId,
      jwtid: 'x',
      expiresIn: 60,
    } satisfies jwt.SignOptions
    const forged = jwt.sign(payload, authority.privateKeyPem, options)
    expect(await joinError(`berth_jt_${forged}`)).to.contain('the join token is not valid')
    const own = readFileSync(join(test.directory, 'pki/authority.pem'), 'utf8')
    const expired = jwt.sign(payload, own, { ...options, expiresIn: -10 })
    expect(await joinError(`berth_jt_${expired}`)).to.contain('has expired')
    expect((await post(JSON.stringify({ token: `berth_jt_${expired}`, csr: '' }))).text).to.contain('has expired')
    const otherAudience = jwt.sign(payload, own, { ...options, audience: 'other' })
    expect(await joinError(`berth_jt_${otherAudience}`)).to.contain('the join token is not valid')
    const [head = '', , tail = ''] = token.split('.')
    const none = Buffer.from(JSON.stringify({ alg: 'none', typ: 'JWT' })).toString('base64url')
    expect(await joinError(`berth_jt_${none}.${token.split('.')[1]}.x`)).to.contain('the join token is not valid')
    const changed = Buffer.from(JSON.stringify({ ...payload, sub: 'h-other', exp: 9e9 })).toString('base64url')
    expect(await joinError(`${head}.${changed}.${tail}`)).to.contain('the join token is not valid')
    expect(await joinError('berth_jt_junk')).to.contain('join token')
    expect(await joinError(token)).to.equal('joined')
  })

  it('sends nothing if the gateway’s CA is not the CA that its token names', async () => {
    const token = await newToken()
    const content = parseJoinToken(token)
    const [head, , tail] = token.split('.')
    const payload = {
      sub: hostId,
      ca: '0'.repeat(64),
      address: content.address,
      exp: content.expiresAtMs / 1000,
    }
    const other = `${head}.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.${tail}`
    expect(await joinError(other)).to.contain('is not the gateway that created this token')
    expect(await joinError(token)).to.equal('joined')
  })

  it('can still use its token after requests that were refused because they were invalid', async () => {
    const token = await newToken()
    expect(await post(JSON.stringify({ token, csr: 'junk' }))).to.include({ status: 400 })
    expect((await post('{')).text).to.contain('invalid_json')
    expect((await post('null')).text).to.contain('missing_field')
    expect((await post(JSON.stringify({ token, csr: 7 }))).text).to.contain('missing_field')
    expect(await post('', '/other')).to.include({ status: 404 })
    expect((await post('x'.repeat(100_000)).catch(() => ({ text: 'payload_too_large' }))).text).to.contain(
      'payload_too_large',
    )
    const csr = (await createCsrPem(createPrivateKeyPem())).replace(/.{20}\n/, (part) => part.toLowerCase())
    expect(await post(JSON.stringify({ token, csr }))).to.include({ status: 400 })
    expect(await joinError(token)).to.equal('joined')
  })

  it('reports the reason if the host cannot reach the gateway', async () => {
    const content = { sub: hostId, ca: '0'.repeat(64), address: '127.0.0.1:1', exp: 9e9 }
    const token = `berth_jt_x.${Buffer.from(JSON.stringify(content)).toString('base64url')}.x`
    expect(await joinError(token))
      .to.contain('the gateway cannot be reached at 127.0.0.1:1')
      .and.to.contain('ECONNREFUSED')
  })

  it('can join again: its running agent uses the new certificate, and the former certificate is refused', async () => {
    const { hostId: id, agent } = await test.addHost('again')
    const identityDir = join(test.directory, 'agent-again')
    const before = readFileSync(join(identityDir, 'identity.pem'))
    const first = getIdentity(identityDir)
    const { token } = await test.fleet.hosts.createJoinToken(id)
    const second = await joinGateway(token, identityDir)
    expect(second.serial).not.to.equal(first.serial)
    await waitFor(() => test.fleet.view.findHost(id)?.state === 'offline', {
      what: 'old certificate refused',
    })
    await waitFor(() => test.fleet.view.findHost(id)?.state === 'online', { what: 'new certificate in use' })
    await agent.stop()
    writeFileSync(join(identityDir, 'identity.pem'), before)
    await agent.resume()
    await waitFor(() => test.fleet.view.findHost(id)?.state === 'offline')
    await new Promise((resolve) => setTimeout(resolve, 1500))
    expect(test.fleet.view.findHost(id)?.state).to.equal('offline')
  })

  it('can take the address of another host only if this other host has joined and is offline', async () => {
    const { hostId: id, agent } = await test.addHost('there')
    const add = (name: string): Promise<string> => codeOf(test.fleet.hosts.createHost({ name, address: agent.address }))
    expect(await add('second')).to.equal('address_in_use')
    expect(await codeOf(test.fleet.hosts.updateHost(hostId, { address: agent.address }))).to.equal('address_in_use')
    await agent.stop()
    await waitFor(() => test.fleet.view.findHost(id)?.state === 'offline')
    expect(await add('anew')).to.equal('ok')
    expect(await add('another'), 'of a host that has not joined yet').to.equal('address_in_use')
  })

  it('has a limit of attempts per address', async () => {
    const answers = await Promise.all(Array.from({ length: 60 }, () => post('{}')))
    expect(answers.filter(({ status }) => status === 429).length).to.be.greaterThan(20)
  })

  async function startOtherAuthority() {
    return { authority: await ensureAuthority(join(test.directory, 'other-pki'), 1) }
  }
})
