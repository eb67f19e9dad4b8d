import { expect } from 'chai'
import { resolve } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { startBerth, type ExitResult } from '../support/cli/berth.js'
import { OtherVersion, unknownEndpoint, type ChangeAnswer } from '../support/cli/other-version.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'

type Fields = Record<string, unknown>
interface OpenApiCopy {
  paths: Record<string, unknown>
  data: Fields & Fields[] & { operations: string[] }
}

const flavors = {
  get: {
    operationId: 'listFlavors',
    summary: 'Lists the flavors',
    parameters: [{ name: 'family', in: 'query', schema: { type: 'string', enum: ['small', 'large'] } }],
    responses: { 200: { description: 'OK', content: { 'application/json': { schema: { type: 'object' } } } } },
  },
}

/** A newer gateway has the endpoint /flavors, a further field of guests, and a further status. */
const newer: ChangeAnswer = (path, answer) => {
  const body = structuredClone(answer.body) as OpenApiCopy
  if (path === '/openapi.json') body.paths['/flavors'] = flavors
  if (path === '/caller') body.data.operations.push('listFlavors')
  if (path === '/flavors') return { status: 200, body: { success: true, data: [{ id: 'f1', family: 'small' }] } }
  if (path === '/containers') for (const row of body.data) Object.assign(row, { status: 'hibernated', flavor: 'f1' })
  return { ...answer, body }
}

/** An older gateway has no timeline and no `ssh_port`. */
const older: ChangeAnswer = (path, answer) => {
  if (path.endsWith('/timeline')) return unknownEndpoint
  const body = structuredClone(answer.body) as OpenApiCopy
  if (path === '/openapi.json') delete body.paths['/containers/{id}/timeline']
  if (path === '/containers') for (const row of body.data) delete row['ssh_port']
  return { ...answer, body }
}

describe('the command line with a gateway of another version', () => {
  let gateway: TestGateway
  const opened: { close(): unknown }[] = []
  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.addGuest({ name: 'web1' })
  })
  after(async () => {
    for (const one of opened) await one.close()
    await gateway.close()
  })

  async function serve(change: ChangeAnswer): Promise<Record<string, string>> {
    const server = await OtherVersion.start(gateway.url, change)
    opened.push(server)
    return { BERTH_URL: server.url, BERTH_KEY: gateway.adminKey, HOME: '/nonexistent' }
  }

  async function connect(env: Record<string, string>, ...more: string[]): Promise<Client> {
    const client = new Client({ name: 'btest', version: '1' })
    opened.unshift(client)
    const args = [resolve('dist/cli/main.js'), 'mcp', '--read-only', ...more]
    await client.connect(new StdioClientTransport({ command: process.execPath, args, env }))
    return client
  }

  const toolsOf = async (client: Client): Promise<string[]> => (await client.listTools()).tools.map(({ name }) => name)

  describe('that is newer', () => {
    let env: Record<string, string>
    before(async () => (env = await serve(newer)))
    const berth = (...args: string[]): Promise<ExitResult> => startBerth(args, env).ended

    it('can use “berth api” to call an operation that it does not know', async () => {
      const { code, out, err } = await berth('api', 'GET', '/flavors?family=small')
      expect(code, err).to.equal(0)
      expect(JSON.parse(out)).to.deep.include({ data: [{ id: 'f1', family: 'small' }] })
      expect((await berth('flavor', 'list')).code).to.equal(2)
    })

    it('shows a status and a field that it does not know', async () => {
      expect((await berth('guest', 'list')).out).to.match(/ web1 +hibernated /)
      expect((await berth('guest', 'list', '--columns', 'name,flavor')).out).to.equal('NAME  FLAVOR\nweb1  f1\n')
    })

    it('offers an assistant the operations of a noun that it does not know', async () => {
      expect(await toolsOf(await connect(env, '--only', 'flavor,'))).to.deep.equal(['flavor_list'])
    })

    it('offers an assistant all operations of the gateway, even one that the command line does not know', async () => {
      const client = await connect(env)
      expect(await toolsOf(client)).to.include.members(['flavor_list', 'guest_list'])
      const result = (await client.callTool({ name: 'flavor_list', arguments: { family: 'small' } })) as CallToolResult
      expect(JSON.stringify(result.content)).to.contain('f1')
    })
  })

  describe('that is older', () => {
    let env: Record<string, string>
    before(async () => (env = await serve(older)))
    const berth = (...args: string[]): Promise<ExitResult> => startBerth(args, env).ended

    it('reports that the gateway lacks an operation, and suggests to compare the versions', async () => {
      expect(await berth('guest', 'timeline', 'web1')).to.deep.equal({
        code: 1,
        out: '',
        err:
          'berth: this endpoint does not exist in this version: see /docs (unsupported)\n' +
          'the gateway has another version than this program: compare berth gateway version and berth --version\n',
      })
    })

    it('omits a column that the gateway does not send', async () => {
      const { code, out } = await berth('guest', 'list')
      expect([code, out]).to.satisfy(([ended, text]: [number, string]) => ended === 0 && !text.includes('SSH PORT'))
      expect(out).to.contain('web1')
    })

    it('does not offer the missing operation to an assistant', async () => {
      const names = await toolsOf(await connect(env))
      expect(names).to.include('guest_list').and.not.to.include('guest_timeline')
    })

    it('explains that the gateway is too old for berth mcp', async () => {
      const oldest = await serve((path, answer) => (path === '/caller' ? unknownEndpoint : answer))
      const { code, err } = await startBerth(['mcp'], oldest).ended
      expect([code, err]).to.deep.equal([1, 'berth: the gateway is too old for berth mcp: upgrade it\n'])
    })
  })
})
