import { expect } from 'chai'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { UnreachableError } from '../client/http/errors.js'
import { RefusedError } from '../client/index.js'
import { cliErrorOf } from './errors.js'
import type { Surroundings } from './surroundings.js'
import { findConnection } from './contexts/connection.js'
import { withSource } from './gateway-source.js'

const url = 'https://panel.example.com'
const contexts = { current: 'lab', contexts: { lab: { url, key: 'k' }, other: { url, key: 'k' } } }

describe('the hint after a failed request', () => {
  const home = mkdtempSync(join(tmpdir(), 'btest-cli-source-'))
  after(() => rmSync(home, { recursive: true, force: true }))

  /** Returns the hint after an error, for a user with these variables. */
  async function hintOf(cause: Error, env: Record<string, string>, named?: string): Promise<string | undefined> {
    const file = join(home, 'config.yaml')
    if (env['BERTH_CONFIG'] === undefined) writeFileSync(file, JSON.stringify(contexts), { mode: 0o600 })
    const surroundings = { env: { BERTH_CONFIG: file, ...env }, home, isRoot: false } as unknown as Surroundings
    const { source } = await findConnection(surroundings, named)
    withSource(cause, source)
    return cliErrorOf(cause)?.hint
  }
  const refused = (code: string): RefusedError => new RefusedError(401, { message: '', code })

  const environment = { BERTH_URL: url, BERTH_KEY: 'k' }
  for (const [name, env, named, text] of [
    ['BERTH_URL', environment, undefined, 'the URL is that of BERTH_URL'],
    ['the current context', {}, undefined, 'berth login URL --name lab'],
    ['the context of --context', environment, 'other', 'the URL is that of the context other'],
    ['the context of BERTH_CONTEXT', { BERTH_CONTEXT: 'other' }, undefined, 'the URL is that of the context other'],
    ['the context, with BERTH_KEY', { BERTH_KEY: 'k' }, undefined, 'the URL is that of the context lab'],
    ['no source', { BERTH_KEY: 'k', BERTH_CONFIG: join(home, 'none') }, undefined, 'neither BERTH_URL nor a context'],
  ] as const)
    it(`names ${name} if the gateway is unreachable`, async () => {
      for (const code of ['ECONNREFUSED', 'ENOTFOUND'])
        expect(await hintOf(new UnreachableError('', code, false), env, named)).to.contain(text)
    })

  it('says where to set a certificate and another key', async () => {
    const untrusted = new UnreachableError('', 'DEPTH_ZERO_SELF_SIGNED_CERT', false)
    expect(await hintOf(untrusted, environment)).to.contain('NODE_EXTRA_CA_CERTS=FILE')
    expect(await hintOf(untrusted, {})).to.contain('berth login URL --ca-file FILE --name lab')
    for (const code of ['unauthorized', 'key_expired']) {
      expect(await hintOf(refused(code), { BERTH_KEY: 'k' })).to.contain('set BERTH_KEY to ')
      expect(await hintOf(refused(code), {})).to.match(/^log in with .* key: berth login URL$/)
    }
  })
})
