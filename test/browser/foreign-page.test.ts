import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import type { BrowserContext, Page } from 'playwright-core'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { ConsoleClient } from '../support/gateway/console-client.js'
import { eventually, waitFor } from '../support/wait.js'
import { openLab, type PanelLab } from './panel-lab.js'

/** The result of a connection attempt: whether it opened, its protocol, and its output. */
interface Outcome {
  readonly opened: boolean
  readonly protocol: string
  readonly shown: string
}

/** Opens a console from a page and types the given input once the shell is ready. */
const openConsole = (address: string, protocols: readonly string[], typed: readonly unknown[] = []): string =>
  `new Promise((resolve) => {
    const socket = new WebSocket(${JSON.stringify(address)}, ${JSON.stringify(protocols)})
    socket.binaryType = 'arraybuffer'
    let opened = false
    let shown = ''
    let left = ${JSON.stringify(typed)}
    socket.onopen = () => (opened = true)
    socket.onclose = () => resolve({ opened, protocol: socket.protocol, shown })
    socket.onmessage = ({ data }) => {
      shown += typeof data === 'string' ? data : new TextDecoder().decode(data)
      if (!shown.includes('SSH shell ready')) return
      for (const one of left) socket.send(Array.isArray(one) ? Uint8Array.from(one) : one)
      left = []
    }
  })`

/**
 * A page of another origin in a browser with a session. `SameSite` ignores ports: the browser sends the session cookie
 * for a page on another port of the gateway's host. It does not send the cookie for a page of another site.
 */
describe('a web page', function () {
  let lab: PanelLab
  let evil: Server
  let port: number
  let guest: Guest
  let victim: BrowserContext

  before(async () => {
    lab = await openLab()
    evil = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' })
      response.end('<!doctype html><title>nice pictures</title><body></body>')
    })
    await new Promise<void>((resolve) => evil.listen(0, '127.0.0.1', resolve))
    port = (evil.address() as AddressInfo).port
    await lab.gateway.fleet.work('host-a')
    guest = await lab.gateway.fleet.addGuest({ name: 'wanted' })
    const own = await lab.logIn()
    victim = await lab.browser.newContext({ storageState: await own.context().storageState() })
    await own.context().close()
  })
  after(async () => {
    await victim.close()
    await new Promise((resolve) => evil.close(resolve))
  })

  async function visit(origin: string): Promise<Page> {
    const page = await victim.newPage()
    await page.goto(origin)
    return page
  }
  const own = (path: string): string => `${lab.gateway.url}/api/v1${path}`
  const consoles = () => lab.gateway.fleet.agentOf('host-a').host.consoles.terminals
  const ticket = async (): Promise<string> => {
    const { status, body, text } = await lab.gateway.request('POST', '/ssh-ticket', {
      body: { container_name: guest.name },
    })
    expect(status, text).to.equal(200)
    return body.data.ticket as string
  }
  const address = (query = ''): string =>
    `${lab.gateway.url.replace(/^http/, 'ws')}/api/v1/ssh?container=${guest.name}${query}`

  for (const [what, originOf] of [
    ['on another port of the gateway’s host', () => `http://127.0.0.1:${port}`],
    ['of another site', () => `http://evil.test:${port}`],
  ] as const)
    describe(what, () => {
      let page: Page
      beforeEach(async () => {
        page = await visit(originOf())
      })
      afterEach(() => page.close())

      it('cannot change anything with fetch or a form, and its attempts with a cookie are logged', async () => {
        const target = own(`/containers/${guest.id}/stop`)
        const sent: number[] = []
        page.on('response', (response) => {
          if (response.url() === target) sent.push(response.status())
        })
        const fetches = [
          { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' },
          { method: 'POST', credentials: 'include', body: '{}' },
          {
            method: 'POST',
            credentials: 'include',
            body: '{}',
            headers: { 'Content-Type': 'application/json', 'X-Berth-CSRF': 'guessed' },
          },
          { method: 'DELETE', credentials: 'include' },
        ]
        for (const options of fetches)
          await page.evaluate(`fetch(${JSON.stringify(target)}, ${JSON.stringify(options)}).catch(() => undefined)`)
        for (const enctype of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
          await page.goto(originOf())
          await page.evaluate(`(() => {
            const form = document.createElement('form')
            Object.assign(form, { method: 'post', enctype: '${enctype}', action: ${JSON.stringify(target)} })
            document.body.append(form)
            form.submit()
          })()`)
          await page.waitForURL(target)
        }
        await waitFor(() => sent.length > 3, { what: 'the answers to the requests' })
        for (const status of sent) expect(status).to.be.oneOf([401, 403, 405])
        const { body: tasks } = await lab.gateway.request('GET', `/tasks?container_name=${guest.name}`)
        expect(tasks.data).to.deep.equal([])
        if (what === 'of another site') return // no cookie was sent, so the account is not known
        await eventually(async () => {
          const { body } = await lab.gateway.request('GET', '/audit-logs?action=container.stop&success=false')
          expect(JSON.stringify(body.data)).to.include('csrf_refused')
        })
      })

      it('cannot read answers or the event stream, or load scripts and images', async () => {
        const read = await page.evaluate<string[]>(`(async () => {
          const paths = ${JSON.stringify(['/containers', '/session', '/account/sessions', '/openapi.json'].map(own))}
          const found = []
          for (const path of paths)
            await fetch(path, { credentials: 'include' }).then(async (answer) => found.push(await answer.text()), () => undefined)
          await new Promise((resolve) => {
            const events = new EventSource(${JSON.stringify(own('/events'))}, { withCredentials: true })
            events.onmessage = events.onopen = () => { found.push('events'); events.close(); resolve() }
            events.onerror = () => { events.close(); resolve() }
          })
          for (const tag of ['script', 'img'])
            await new Promise((resolve) => {
              const one = document.createElement(tag)
              one.onload = () => { found.push(tag); resolve() }
              one.onerror = resolve
              one.src = paths[0]
              document.body.append(one)
            })
          return found
        })()`)
        expect(read).to.deep.equal([])
      })

      it('cannot show the panel in a frame', async () => {
        const paths = ['/', '/setup', '/login', '/console/x', '/docs']
        await page.evaluate(`Promise.all(${JSON.stringify(paths)}.map((path) => new Promise((resolve) => {
          const frame = document.createElement('iframe')
          frame.onload = resolve
          frame.src = ${JSON.stringify(lab.gateway.url)} + path
          document.body.append(frame)
        })))`)
        const refused = paths.map(() => 'chrome-error://chromewebdata/')
        const shown = (): string[] =>
          page
            .frames()
            .slice(1)
            .map((frame) => frame.url())
        // A frame has no URL until the browser reports its first page. That can be after `onload`.
        await waitFor(() => shown().filter(Boolean).length === paths.length, { what: () => shown().join() })
        expect(shown()).to.deep.equal(refused)
      })

      it('cannot open a console with the cookie or a stolen ticket, and does not use up the ticket', async () => {
        const before = consoles().length
        const stolen = await ticket()
        for (const protocols of [[], [`berth-ticket.${stolen}`], ['berth.console.v1', `berth-ticket.${stolen}`]])
          expect((await page.evaluate<Outcome>(openConsole(address(), protocols))).opened).to.equal(false)
        const byQuery = await page.evaluate<Outcome>(openConsole(address(`&ticket=${stolen}`), []))
        expect(byQuery.opened).to.equal(false)
        expect(consoles().length).to.equal(before)
        const client = ConsoleClient.open(own('/ssh'), {
          protocols: ['berth.console.v1', `berth-ticket.${stolen}`],
          query: { container: guest.name },
        })
        await waitFor(() => client.texts.some((text) => text.includes('"ready"')), {
          what: 'it is still good',
        })
        client.socket.close(1000)
      })
    })

  it('can open consoles only while its origin is permitted', async () => {
    const origin = `http://billing.test:${port}`
    const put = async (origins: string[]): Promise<void> => {
      const { status, text } = await lab.gateway.request('PUT', '/webssh-origins', { body: { origins } })
      expect(status, text).to.equal(200)
    }
    const page = await visit(origin)
    const attempt = async (): Promise<Outcome> => {
      const given = await ticket()
      const typed = [
        [97],
        '{"type":"input","data":"b"}',
        '{"type":"stdin","data":"c"}',
        '{"type":"data","data":"d"}',
        '{"type":"resize","cols":91,"rows":31}',
        'e\r',
      ]
      return page.evaluate<Outcome>(openConsole(address(`&ticket=${given}`), [`clicd-ticket.${given}`], typed))
    }
    expect((await attempt()).opened, 'not in the list').to.equal(false)
    await put([origin])
    const attempted = attempt()
    const terminal = await waitFor(
      () => consoles().find(({ guestUuid, input }) => guestUuid === guest.uuid && input === 'abcde\r'),
      { what: () => `all that was typed, ${JSON.stringify(consoles().map(({ input }) => input))}` },
    )
    expect(terminal.sizes).to.include('91x31')
    terminal.exit(0)
    const { opened, protocol, shown } = await attempted
    expect([opened, protocol.replace(/\..*/, '')]).to.deep.equal([true, 'clicd-ticket'])
    expect(shown).to.include('SSH shell ready')
    await put([])
    expect((await attempt()).opened, 'not any more').to.equal(false)
    await page.close()
  })
})
