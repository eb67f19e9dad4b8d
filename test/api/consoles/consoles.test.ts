import { createServer } from 'node:net'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { ConsoleLab, ownProtocol } from '../../support/gateway/console-lab.js'
import { waitFor } from '../../support/wait.js'

describe('the console API', () => {
  let lab: ConsoleLab
  let guest: Guest
  before(async () => {
    lab = await ConsoleLab.start()
  })
  after(() => lab.close())
  beforeEach(async () => {
    guest = await lab.addGuest()
  })
  afterEach(async () => {
    lab.aheadMs = 0
    await lab.endAll()
  })

  describe('for a terminal with the protocol berth.console.v1', () => {
    it('passes on input, output and changes of the size', async () => {
      const { client, status, terminal } = await lab.opened(guest, { query: { cols: '100', rows: '30' } })
      expect(client.socket.protocol).to.equal(ownProtocol)
      expect(client.states.map(({ state }) => state)).to.deep.equal(['connecting', 'ready'])
      expect(status.resume).to.match(/^[\w-]{20,}$/)
      client.type('ls\r')
      client.say({ type: 'resize', cols: 120, rows: 40 })
      await waitFor(() => terminal.sizes.length === 2, { what: 'the size' })
      expect([terminal.mode, terminal.input, terminal.sizes]).to.deep.equal(['shell', 'ls\r', ['100x30', '120x40']])
      terminal.show('中文 \u{1f600}\r\n')
      await client.shows(/中文 \u{1f600}\r\n/u)
    })

    it('ends the terminal when the guest’s shell ends, or on request of the client', async () => {
      const { client, terminal } = await lab.opened(guest)
      terminal.show('logout')
      terminal.exit(0)
      expect(await client.ended()).to.deep.equal({ code: 1000, reason: 'ended' })
      expect(client.text).to.equal('logout')
      const { client: other, terminal: second } = await lab.opened(guest)
      other.say({ type: 'close' })
      expect(await other.ended()).to.deep.equal({ code: 1000, reason: 'closed' })
      await waitFor(() => second.closed, { what: 'its terminal is closed' })
    })

    it('also supports the serial console of the guest', async () => {
      const { terminal } = await lab.opened(guest, { query: { mode: 'serial' } })
      expect(terminal.mode).to.equal('serial')
    })

    for (const [name, frame] of [
      ['text that is not a message', 'ls\r'],
      ['a message of another type', '{"type":"status"}'],
      ['JSON that is not an object', '{"type"'],
      ['a resize to 0 columns', '{"type":"resize","cols":0,"rows":10}'],
      ['a resize to 1001 rows', '{"type":"resize","cols":80,"rows":1001}'],
      ['a resize with the size as text', '{"type":"resize","cols":"80","rows":"24"}'],
      ['an acknowledgement of output that was not sent', '{"type":"ack","bytes":1}'],
      ['a negative acknowledgement', '{"type":"ack","bytes":-1}'],
    ] as const)
      it(`ends the terminal if the client sends ${name}`, async () => {
        const { client, terminal } = await lab.opened(guest)
        client.socket.send(frame)
        expect(await client.ended()).to.deep.equal({ code: 4400, reason: 'bad_frame' })
        expect(terminal.input).to.equal('')
      })

    it('ends the terminal if the client sends a frame that is too large', async () => {
      const { client } = await lab.opened(guest)
      client.socket.send(Buffer.alloc(65_537))
      expect((await client.ended()).code).to.equal(1009)
    })

    it('pauses its output while too much output is unacknowledged (one flow-control window)', async () => {
      const { client, terminal } = await lab.opened(guest, { acknowledges: false })
      let shown = 0
      await waitFor(
        () => {
          terminal.show(Buffer.alloc(32_768, 97))
          shown += 32_768
          return terminal.paused
        },
        { intervalMs: 1, what: 'paused' },
      )
      await waitFor(() => client.received === shown, { what: 'all of the window' })
      expect(shown).to.be.within(512 * 1024, 600 * 1024)
      client.say({ type: 'ack', bytes: client.received })
      await waitFor(() => !terminal.paused, { what: 'resumed' })
    })

    it('limits how often its size changes, so that another console stays responsive', async () => {
      const { client, terminal } = await lab.opened(guest)
      const { client: other, terminal: quiet } = await lab.opened(guest)
      const sent = 60_000
      for (let at = 0; at < sent; at++) client.say({ type: 'resize', cols: 80 + (at % 2), rows: 24 })
      await waitFor(() => terminal.sizes.length > 500, { what: 'some are passed on' })
      for (let key = 1; key <= 50; key++) {
        other.type('k')
        await waitFor(() => quiet.input.length === key, { what: 'another console is quick' })
      }
      expect(terminal.sizes.length).to.be.below(sent / 10)
      client.socket.terminate()
    })

    it('stops reading input while too much input is unread by the guest (one flow-control window)', async () => {
      const { client, terminal } = await lab.opened(guest)
      terminal.takes = false
      const sent = 2_000_000
      for (let at = 0; at < sent; at += 50_000) client.type(Buffer.alloc(50_000, 120))
      await waitFor(() => terminal.input.length > 256 * 1024, { what: 'a window of input' })
      await waitFor(() => client.socket.bufferedAmount > 0 || terminal.input.length < 400_000)
      expect(terminal.input.length).to.be.below(400_000)
    })
  })

  describe('for a console that is resumed', () => {
    it('continues after a lost connection, and sends the missed output exactly once', async () => {
      const { client, status, terminal } = await lab.opened(guest)
      terminal.show('one\n')
      await client.shows(/one\n/)
      client.socket.terminate()
      await waitFor(() => lab.gateway.api.consoles.size === 0, { what: 'left' })
      terminal.show('two\n')
      const query = { resume: status.resume, received: String(client.received) }
      const again = await lab.opened(guest, { query })
      expect(again.status).to.deep.include({ state: 'resumed', resume: status.resume, offset: 4, replay: 0 })
      await again.client.shows(/^two\n$/)
      again.client.type('pwd\r')
      await waitFor(() => terminal.input === 'pwd\r', { what: 'input' })
      expect(again.terminal).to.equal(terminal)
    })

    it('sends the screen again to a reloaded page', async () => {
      const { client, status, terminal } = await lab.opened(guest)
      terminal.show('first line\n$ ')
      await client.shows(/\$ /)
      client.socket.close(1001)
      await client.ended()
      const again = await lab.opened(guest, { query: { resume: status.resume, cols: '80', rows: '24' } })
      await again.client.shows(/^first line\n\$ $/)
      expect(again.status).to.include({ offset: 0, replay: 13 })
      await waitFor(() => terminal.sizes.join() === '80x24,80x23,80x24', {
        what: () => terminal.sizes.join(),
      })
    })

    it('continues when the agent has restarted', async () => {
      const { client, status, terminal } = await lab.opened(guest)
      await lab.agent.stop()
      expect((await client.ended()).code).to.equal(1011)
      await lab.agent.resume()
      const again = await lab.opened(guest, { query: { resume: status.resume } })
      again.client.type('x')
      await waitFor(() => terminal.input === 'x', { what: 'the same terminal' })
    })

    it('continues only for the same caller and guest, and only until the console ends', async () => {
      const { client, status, terminal } = await lab.opened(guest)
      client.socket.terminate()
      const other = await lab.addGuest()
      const key = await lab.gateway.makeKey({ scopes: ['terminal:*'] })
      for (const [container, options] of [
        [guest.name, { key }],
        [other.name, {}],
      ] as const) {
        const refused = await lab.open(container, { ...options, query: { resume: status.resume } })
        expect(await refused.ended()).to.deep.equal({ code: 4404, reason: 'console_gone' })
      }
      const again = await lab.opened(guest, { query: { resume: status.resume } })
      again.client.say({ type: 'close' })
      await waitFor(() => terminal.closed, { what: 'closed' })
      const late = await lab.open(guest.name, { query: { resume: status.resume } })
      expect((await late.ended()).code).to.equal(4404)
    })

    it('ends the connection of the browser window that used the console before', async () => {
      const { client, status } = await lab.opened(guest)
      await lab.opened(guest, { query: { resume: status.resume } })
      expect(await client.ended()).to.deep.equal({ code: 4409, reason: 'taken_over' })
    })
  })

  it('passes on exactly the bytes of a virtual machine’s screen', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'btest-vnc-'))
    const server = createServer((socket) => {
      socket.write('RFB 003.008\n')
      socket.on('data', (bytes) => socket.write(Buffer.from(`<${bytes.toString()}>`)))
    })
    await new Promise<void>((done) => server.listen(join(directory, 'vnc.sock'), done))
    lab.agent.host.driver.screen = join(directory, 'vnc.sock')
    try {
      const { name } = await lab.addGuest({ virtualization: 'kvm' })
      const ticket = await lab.ticket(name, { kind: 'vnc' })
      const client = lab.connect('/api/v1/vnc', {
        protocols: ['binary', `clicd-vnc-ticket.${ticket}`],
        query: { container: name },
      })
      await client.shows(/^RFB 003\.008\n$/)
      expect(client.socket.protocol).to.equal('binary')
      client.type('RFB 003.008\n')
      client.socket.send('text')
      await client.shows(/^RFB 003\.008\n(<RFB 003\.008\ntext>|<RFB 003\.008\n><text>)$/)
      expect(client.texts).to.deep.equal([])
    } finally {
      lab.agent.host.driver.screen = undefined
      await lab.endAll()
      server.close()
      await rm(directory, { recursive: true })
    }
  })

  it('ends the connection to a screen and states the reason if the virtual machine has no screen', async () => {
    const { name } = await lab.addGuest({ virtualization: 'kvm' })
    const client = await lab.open(name, { kind: 'vnc' })
    expect(await client.ended()).to.deep.equal({ code: 4409, reason: 'unsupported' })
  })

  it('refuses a screen for a container, whether it runs or not', async () => {
    const stopped = await lab.addGuest({ status: 'stopped' })
    for (const container of [guest.name, stopped.name]) {
      const { status, body } = await lab.gateway.request('POST', '/vnc-ticket', { body: { container } })
      expect([status, body.code]).to.deep.equal([400, 'unsupported'])
    }
  })

  it('accepts the numeric id of the container in a request for a ticket', async () => {
    for (const field of ['container', 'container_name']) {
      const { status, text } = await lab.gateway.request('POST', '/ssh-ticket', {
        body: { [field]: guest.id },
      })
      expect(status, text).to.equal(200)
    }
  })

  it('records the start and end of a console in the audit log', async () => {
    const { client } = await lab.opened(guest)
    client.type('secret')
    client.say({ type: 'close' })
    await client.ended()
    const entries = await waitFor(
      async () => {
        const { body } = await lab.gateway.request('GET', `/audit-logs?target=${guest.name}`)
        const entries = body.data as { action: string; success: boolean; detail: string }[]
        return entries.length === 3 ? entries : undefined
      },
      { what: 'three entries' },
    )
    expect(entries.map(({ action, success }) => [action, success])).to.deep.equal([
      ['console.close', true],
      ['console.open', true],
      ['console.ticket', true],
    ])
    expect(entries[0]?.detail).to.match(/^shell, \d+ s, 6 bytes in, 0 out, closed$/)
    expect(JSON.stringify(entries)).not.to.contain('secret')
  })
})
