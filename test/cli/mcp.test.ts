import { expect } from 'chai'
import { resolve } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { ElicitRequestSchema, type CallToolResult, type Progress } from '@modelcontextprotocol/sdk/types.js'
import type { Body } from '../support/body.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'

const fields = { template_id: 'debian-12', ram_mb: 64, disk_gb: 1, vcpu: 0.1, start: false }

describe('berth mcp', () => {
  let gateway: TestGateway
  const clients: Client[] = []
  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
  })
  after(async () => {
    for (const client of clients) await client.close()
    await gateway.close()
  })

  /** Starts the program as an assistant does. @param answer the user's answer; undefined: the assistant cannot ask */
  async function connect(key: string, args: readonly string[] = [], answer?: boolean): Promise<Client> {
    const capabilities = answer === undefined ? {} : { elicitation: {} }
    const client = new Client({ name: 'btest', version: '1' }, { capabilities })
    if (answer !== undefined)
      client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
        questions.push(params.message)
        return { action: 'accept', content: { confirmed: answer } }
      })
    const env = { BERTH_URL: gateway.url, BERTH_KEY: key, HOME: '/nonexistent', PATH: process.env['PATH'] ?? '' }
    const words = [resolve('dist/cli/main.js'), 'mcp', ...args]
    clients.push(client)
    await client.connect(new StdioClientTransport({ command: process.execPath, args: words, env }))
    return client
  }
  const questions: string[] = []

  async function call(client: Client, name: string, args: Record<string, unknown>) {
    const result = (await client.callTool({ name, arguments: args })) as CallToolResult
    const [content] = result.content
    const text = content?.type === 'text' ? content.text : ''
    const body: Body = result.isError ? {} : JSON.parse(text)
    return { isError: result.isError ?? false, text, body }
  }
  const exists = async (name: string): Promise<boolean> =>
    (await gateway.request('GET', `/containers/${name}`)).status === 200

  it('offers only tools (operations of the API) that the key is allowed to use, with their schemas', async () => {
    const limited = await connect(await gateway.makeKey({ scopes: ['container:read', 'container:power'] }))
    const { tools } = await limited.listTools()
    const names = tools.map(({ name }) => name)
    expect(names).to.include.members(['guest_list', 'guest_start', 'gateway_version', 'caller_get'])
    expect(names.filter((name) => /create|delete|api_key|host_|session_/.test(name))).to.deep.equal([])
    expect((await call(limited, 'guest_delete', { guest: 'x' })).text).to.contain('does not exist, or the API key')
    const reading = await connect(gateway.adminKey, ['--read-only', '--only', 'guest,host'])
    const readable = (await reading.listTools()).tools
    expect(readable.map(({ name }) => name.replace(/_.*/, ''))).to.include.members(['guest', 'host'])
    expect(readable.filter(({ annotations }) => annotations?.readOnlyHint !== true)).to.deep.equal([])
    expect(readable.map(({ name }) => name)).not.to.include('guest_create')
  })

  it('has valid names and complete schemas for every operation', async () => {
    const { tools } = await (await connect(gateway.adminKey)).listTools()
    expect(tools).to.have.lengthOf.above(120)
    expect(new Set(tools.map(({ name }) => name)).size).to.equal(tools.length)
    expect(tools.filter(({ name }) => !/^[a-z][a-z0-9_]{1,63}$/.test(name))).to.deep.equal([])
    expect(JSON.stringify(tools)).not.to.contain('$ref')
    const create = tools.find(({ name }) => name === 'guest_create')!
    expect(create.inputSchema.required).to.include.members(['name', 'template_id'])
    expect(create.inputSchema.properties).to.have.property('nat_port_mappings')
    const dangerous = tools.filter(({ annotations }) => annotations?.destructiveHint).map(({ name }) => name)
    expect(dangerous).to.include.members(['guest_delete', 'guest_reinstall', 'guest_batch', 'snapshot_restore'])
    expect(dangerous).to.include.members(['api_key_create', 'admin_create', 'guest_stop', 'guest_update'])
    expect(dangerous).not.to.include.members(['guest_start'])
    const reading = tools.filter(({ annotations }) => annotations?.readOnlyHint).map(({ name }) => name)
    expect(reading.filter((name) => dangerous.includes(name) || name.includes('ticket'))).to.deep.equal([])
  })

  it('waits for the tasks of a call, shows their progress, and returns the reason of a failure', async () => {
    const client = await connect(gateway.adminKey)
    const progress: Progress[] = []
    const request = { name: 'guest_create', arguments: { name: 'mcp-a', ...fields } }
    const result = (await client.callTool(request, undefined, {
      onprogress: (state) => progress.push(state),
    })) as CallToolResult
    expect(JSON.stringify(result.content)).to.contain('done')
    expect(progress.every(({ total }) => total === 100)).to.equal(true)
    const list = await call(client, 'guest_list', { page_size: 1, name: 'mcp-a' })
    expect(list.body.data).to.have.lengthOf(1)
    const wrong = await call(client, 'guest_create', { name: 'x y', ...fields })
    expect([wrong.isError, wrong.text.includes('(invalid_field)')]).to.deep.equal([true, true])
    const unknown = await call(client, 'guest_start', { guest: 'mcp-a', forced: true })
    expect(unknown.text).to.equal('unknown arguments: forced')
  })

  it('refuses a deletion until the assistant repeats the name of the guest', async () => {
    const client = await connect(gateway.adminKey)
    const { uuid } = await gateway.fleet.addGuest({ name: 'mcp-b' })
    for (const confirm of [undefined, 'mcp-a', uuid])
      expect((await call(client, 'guest_delete', { guest: uuid, confirm })).text).to.contain('confirm: "mcp-b"')
    expect(await exists('mcp-b')).to.equal(true)
    expect((await call(client, 'guest_delete', { guest: uuid, confirm: 'mcp-b' })).isError).to.equal(false)
    expect(await exists('mcp-b')).to.equal(false)
  })

  it('asks the user for a confirmation if the assistant’s program supports it, even if the name was sent', async () => {
    await gateway.fleet.addGuest({ name: 'mcp-c' })
    const refusing = await connect(gateway.adminKey, [], false)
    const refused = await call(refusing, 'guest_batch', { action: 'delete', containers: ['mcp-c'], confirm: 'mcp-c' })
    expect(refused.text).to.contain('the user has refused')
    expect(await exists('mcp-c')).to.equal(true)
    const agreeing = await connect(gateway.adminKey, [], true)
    expect((await call(agreeing, 'guest_delete', { guest: 'mcp-c' })).isError).to.equal(false)
    expect(questions.at(-1)).to.match(/^berth guest delete mcp-c with \{"guest":"mcp-c"\}: .*Continue\?$/)
    expect(await exists('mcp-c')).to.equal(false)
  })
})
