import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { createHash, X509Certificate } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { installReportPath } from '../../shared/join-token.js'
import { scratchDirectory } from '../support/scratch.js'
import { startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'

interface Answer {
  readonly status: number
  readonly text: string
  /** The pinned key of the server, in the form of curl's option --pinnedpubkey. */
  readonly pin: string
}

describe('the installation of hosts', () => {
  const scratch = scratchDirectory('btest-install')
  const packages = join(scratch.path, 'packages')
  let test: TestFleet
  let hostId: string
  let token: string

  before(async () => {
    mkdirSync(packages)
    writeFileSync(join(scratch.path, 'secret'), 'secret')
    writeFileSync(join(packages, 'InRelease'), 'signed')
    writeFileSync(join(packages, 'berth-agent_1.2.3+4.gabc~rc1_amd64.deb'), 'package')
    test = await startTestFleet({ packages_dir: packages })
    hostId = (await test.fleet.hosts.createHost({ name: 'new' })).id
    token = (await test.fleet.hosts.createJoinToken(hostId)).token
  })
  after(async () => {
    await test.close()
    scratch.wipe()
  })

  function send(method: string, path: string, headers: Record<string, string> = {}, body = ''): Promise<Answer> {
    const [host, port] = test.fleet.joinAddress.split(':')
    return new Promise((resolve, reject) => {
      const options = { host, port, path, method, headers, rejectUnauthorized: false, agent: false }
      const call = request(options, (answer) => {
        const { raw } = (answer.socket as TLSSocket).getPeerCertificate()
        const spki = new X509Certificate(raw).publicKey.export({ type: 'spki', format: 'der' })
        const pin = `sha256//${createHash('sha256').update(spki).digest('base64')}`
        let text = ''
        answer.on('data', (chunk: Buffer) => (text += chunk.toString()))
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text, pin }))
      })
      call.on('error', reject)
      call.end(body)
    })
  }

  const report = (fields: Record<string, unknown>): Promise<Answer> =>
    send('POST', installReportPath, {}, JSON.stringify({ token, ...fields }))
  const codeIn = ({ text }: Answer): string => (JSON.parse(text) as { code: string }).code

  it('shows a command with the pinned key of the gateway, and this key stays the same after a restart', async () => {
    const { command } = await test.fleet.hosts.createJoinToken(hostId)
    token = /berth_jt_\S+/.exec(command)![0]
    const { pin } = await send('GET', '/install')
    expect(command).to.equal(
      `curl -fsSLk --pinnedpubkey '${pin}' https://${test.fleet.joinAddress}/install | sh -s -- ${token}`,
    )
    const again = await test.startGateway()
    expect((await again.hosts.createJoinToken(hostId)).command).to.include(pin)
    token = (await test.fleet.hosts.createJoinToken(hostId)).token
  })

  it('begins with a script that contains the gateway’s address and CA, but no secrets', async () => {
    const { status, text } = await send('GET', '/install')
    expect(status).to.equal(200)
    expect(text).to.include(`gateway='${test.fleet.joinAddress}'`).and.include("version='0.0.0'")
    expect(text).not.to.match(/PRIVATE KEY|@[A-Z]+@/)
    execFileSync('sh', ['-n'], { input: text })
  })

  it('requires a token for downloads of packages, and also accepts a token that was already used', async () => {
    const path = '/packages/berth-agent_1.2.3+4.gabc~rc1_amd64.deb'
    const bearer = { authorization: `Bearer ${token}` }
    expect(await send('GET', path, bearer)).to.include({ status: 200, text: 'package' })
    expect(codeIn(await send('GET', path))).to.equal('join_token_invalid')
    expect(codeIn(await send('GET', path, { authorization: 'Bearer berth_jt_a.b.c' }))).to.equal('join_token_invalid')
  })

  for (const name of ['../secret', '..%2fsecret', '%2e%2e/secret', '', '.', '/etc/passwd', 'a/b', 'missing.deb'])
    it(`refuses to serve the file ${JSON.stringify(name)}`, async () => {
      const answer = await send('GET', `/packages/${name}`, { authorization: `Bearer ${token}` })
      expect([answer.status, codeIn(answer)]).to.deep.equal([404, 'not_found'])
    })

  it('stores each step that a host reports, and answers with the state of the host', async () => {
    const { text } = await report({ step: 'failed', message: 'no\nspace\u202e' + 'x'.repeat(1000) })
    expect(JSON.parse(text)).to.deep.equal({ host: 'new', status: 'pending', address: '', version: '' })
    const { install } = test.fleet.view.findHost(hostId)!
    expect(install?.step).to.equal('failed')
    expect(install?.message)
      .to.match(/^no space x+$/)
      .and.have.length(500)
  })

  for (const [fields, status, code] of [
    [{ step: 'done' }, 400, 'invalid_field'],
    [{ step: 'failed', message: { a: 1 } }, 400, 'invalid_field'],
    [{ token: 'berth_jt_a.b.c', step: 'checking' }, 401, 'join_token_invalid'],
  ] as const)
    it(`refuses this report of an installer: ${JSON.stringify(fields)}`, async () => {
      const answer = await report(fields)
      expect([answer.status, codeIn(answer)]).to.deep.equal([status, code])
    })

  it('blocks an address that has sent too many wrong tokens', async () => {
    const statuses = new Set<number>()
    for (let attempt = 0; attempt < 31; attempt++)
      statuses.add((await send('GET', '/packages/InRelease', { authorization: 'Bearer berth_jt_a.b.c' })).status)
    expect([...statuses]).to.deep.equal([401, 429])
  })
})
