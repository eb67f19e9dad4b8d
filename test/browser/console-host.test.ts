import { createHash } from 'node:crypto'
import { expect } from 'chai'
import type { BrowserContext, Page } from 'playwright-core'
import { eventually, waitFor } from '../support/wait.js'
import { HostLab } from './host-lab.js'
import type { OpenOptions } from './panel-lab.js'
import { TerminalPage } from './terminal-page.js'
import { deadlineOf, expectInTime } from '../support/promised-time.js'

/** Maximum size of output that the gateway sends without an acknowledgement from the terminal. */
const windowBytes = 512 * 1024

/** Tests the way from the panel in Chromium through a real gateway and a real agent to a shell in a real container. */
describe('a terminal of a real guest in the panel', function () {
  const lab = new HostLab({ name: 'pcn', prefix: '198.18.138' })
  let context: BrowserContext

  before(async () => {
    await lab.start()
    for (const name of ['one', 'two']) await lab.create(name)
  })
  after(() => lab.close())
  afterEach(async () => {
    for (const one of lab.panel.browser.contexts()) await one.close()
  })

  /** Logs in as a new administrator, and opens a shell on the page of the guest. */
  async function open(name: string, options: OpenOptions = {}): Promise<TerminalPage> {
    const page = await lab.panel.logIn(options)
    context = page.context()
    await TerminalPage.prepare(context)
    await page.goto('about:blank')
    return shell(page, name)
  }

  async function shell(page: Page, name: string): Promise<TerminalPage> {
    const { id } = await lab.running(name)
    await lab.panel.show(page, `/containers/${id}/console`)
    const view = new TerminalPage(page)
    await view.state('open')
    await view.shows(/# $|#$/)
    return view
  }

  /** Runs a command in the terminal. @returns the line that the command prints */
  async function run(view: TerminalPage, command: string): Promise<string> {
    const mark = Math.random().toString(36).slice(2)
    await view.type(`echo "${mark.slice(0, 4)}""${mark.slice(4)} $(${command})"\n`)
    const text = await view.shows(new RegExp(`^${mark} .*$`, 'm'))
    return new RegExp(`^${mark} (.*)$`, 'm').exec(text)?.[1] ?? ''
  }

  it('reports its visible size to the guest, and shows characters of all scripts', async () => {
    const view = await open('one')
    const { cols, rows } = await view.size()
    expect(await run(view, 'busybox stty size')).to.equal(`${rows} ${cols}`)
    await view.page.setViewportSize({ width: 900, height: 700 })
    await waitFor(async () => (await view.size()).cols < cols, { what: 'a smaller terminal' })
    const told = async (): Promise<boolean> => {
      const inside = await run(view, 'busybox stty size')
      const now = await view.size() // read again: the size may change in two steps
      return inside === `${now.rows} ${now.cols}`
    }
    await waitFor(told, { what: 'the guest knows' })
    expect(await run(view, 'echo 中文 😀')).to.equal('中文 😀')
  })

  it('receives 10 MB of output completely, and needs little memory for it', async () => {
    const bytes = 10 * 2 ** 20
    const line = `${'0123456789abcdef'.repeat(4)}\r\n`
    const count = Math.ceil(bytes / line.length)
    const view = await open('one')
    const hash = createHash('sha256')
    let left = count * line.length
    let begun = false
    // Counts the frames that the browser receives.
    view.page.on('websocket', (socket) =>
      socket.on('framereceived', ({ payload }) => {
        if (typeof payload === 'string') return
        const from = begun ? 0 : payload.indexOf('BEGIN\r\n')
        if (from < 0 || left === 0) return
        const part = payload.subarray(begun ? 0 : from + 7).subarray(0, left)
        begun = true
        left -= part.length
        hash.update(part)
      }),
    )
    await view.page.reload() // opens a socket whose frames are recorded
    await view.state('open')
    const session = await context.newCDPSession(view.page)
    await session.send('Performance.enable')
    let heap = 0
    const measure = async (): Promise<void> => {
      const { metrics } = await session.send('Performance.getMetrics')
      heap = Math.max(heap, metrics.find(({ name }) => name === 'JSHeapUsedSize')?.value ?? 0)
    }
    await view.type(`echo BEG""IN; busybox yes ${line.trim()} | busybox head -n ${count}; echo fin""ished\n`)
    const started = performance.now()
    await waitFor(async () => (await measure(), left === 0), {
      intervalMs: 500,
      what: () => `all of it, ${left} left`,
    })
    await view.shows(/^finished$/m)
    const seconds = (performance.now() - started) / 1000
    console.log(`        ${(10 / seconds).toFixed(1)} MiB/s, heap ${Math.round(heap / 2 ** 20)} MiB`)
    expect(hash.digest('hex')).to.equal(createHash('sha256').update(line.repeat(count)).digest('hex'))
    expect(heap).to.be.below(100 * 2 ** 20)
  })

  it('stops a flood of output soon after Ctrl-C, while the console of another guest stays responsive', async () => {
    const flooded = await open('one')
    const other = await shell(await context.newPage(), 'two')
    await flooded.page.bringToFront()
    await flooded.page.evaluate(countBytes)
    await flooded.type(`busybox yes ${'y'.repeat(70)}\n`)
    await flooded.shows(/y{70}\ny{70}\ny{70}/)
    /** Number of bytes that the browser gets while `act` runs. This number does not depend on the machine's speed. */
    const bytesDuring = async (act: () => Promise<unknown>): Promise<number> => {
      const count = (): Promise<number> => flooded.page.evaluate<number>('window.countedBytes')
      const before = await count()
      await act()
      return (await count()) - before
    }
    const perEcho = (await bytesDuring(() => other.page.evaluate(typeKeys))) / typedKeys
    const rest = await bytesDuring(async () => {
      await flooded.page.keyboard.press('Control+c')
      await flooded.shows(/\^C\n.*# *$/)
    })
    console.log(`        bytes of the flood: ${Math.round(perEcho)} for each echo, ${rest} after Ctrl-C`)
    expect(perEcho, 'bytes for each echo').to.be.within(1, windowBytes)
    expect(rest, 'bytes after Ctrl-C').to.be.below(4 * windowBytes)
  })

  describe('continues with an open editor', () => {
    /** Opens an editor with an unsaved line. `pid` is the process id of the shell. */
    async function edit(): Promise<{ view: TerminalPage; pid: string }> {
      const view = await open('one')
      const pid = await run(view, 'echo $PPID; true')
      const shellPid = await run(view, 'echo $$')
      await view.type('busybox vi /tmp/draft\n')
      await view.shows(/~\n~/)
      await view.type('ian unsaved line')
      await view.shows(/an unsaved line/)
      return { view, pid: shellPid || pid }
    }

    /** Checks that the screen is complete, and that the same shell runs behind the editor. */
    async function expectSame(view: TerminalPage, pid: string): Promise<void> {
      await view.shows(/an unsaved line *\n~ *\n~/)
      await view.page.keyboard.press('Escape')
      await view.shows(/^- \/tmp\/draft/m) // waits, because bytes directly after Escape would form another key
      await view.type(':q!\n')
      expect(await run(view, 'echo $$')).to.equal(pid)
    }

    const backWithin = async (view: TerminalPage, promisedMs: number): Promise<void> => {
      const ready = performance.now()
      await view.state('open', deadlineOf(promisedMs))
      console.log(`        open again after ${Math.round(performance.now() - ready)} ms`)
    }

    it('after a restart of the gateway', async () => {
      const { view, pid } = await edit()
      await lab.gateway.kill('SIGTERM')
      await view.state('lost')
      await view.page.getByText('Reconnecting…').first().waitFor()
      lab.gateway.start()
      await lab.gateway.ready()
      await lab.online()
      await backWithin(view, 5000)
      await expectSame(view, pid)
    })

    it('after a restart of the agent', async () => {
      const { view, pid } = await edit()
      await lab.host.kill('SIGTERM')
      await view.state('lost')
      lab.host.start()
      await lab.online()
      await backWithin(view, 5000)
      await expectSame(view, pid)
    })

    it('after a reload of the page', async () => {
      const { view, pid } = await edit()
      await view.page.reload()
      await backWithin(view, 10_000)
      await expectSame(view, pid)
    })
  })

  describe('ends within 2 s', () => {
    async function ends(view: TerminalPage, text: string | RegExp, act: () => Promise<unknown>): Promise<void> {
      const resume = () => view.page.evaluate<string>('Object.values(sessionStorage)[0] ?? ""')
      await eventually(async () => expect(await resume()).to.match(/^[\w-]{20,}$/))
      await act()
      const started = performance.now()
      await view.state('ended')
      expectInTime(started, 2000, 'the end')
      await view.page.getByText(text).waitFor()
      await view.type('echo never > /tmp/never\n')
      await eventually(async () => expect(await resume()).to.equal(''))
    }

    it('after a logout in another tab', async () => {
      const view = await open('one')
      const other = await context.newPage()
      await other.goto(`${lab.gateway.url}/`)
      await other.locator('#main-content h1').waitFor()
      await ends(view, 'You no longer have access to this console.', async () => {
        await other.getByLabel(/^Account:/).click()
        await other.getByRole('menuitem', { name: 'Log out' }).click()
        await other.locator('#username').waitFor()
      })
      // A script clicks the button. The logout has ended the event stream, so the login dialog may cover the button.
      await view.page.getByRole('button', { name: 'Connect again' }).dispatchEvent('click')
      await view.page.getByRole('dialog').locator('#username').waitFor()
    })

    it('after the deletion of the guest', async () => {
      await lab.create('gone')
      const view = await open('gone')
      await ends(view, /^The guest/, () => lab.send('DELETE', '/containers/gone/delete'))
    })
  })
})

/** Script for a page with a terminal: counts the bytes that the terminal gets from now on. */
const countBytes = `(() => {
  const terminal = window.shownTerminal
  const write = terminal.write.bind(terminal)
  window.countedBytes = 0
  terminal.write = (data, done) => {
    window.countedBytes += data.length
    write(data, done)
  }
})()`

const typedKeys = 40

/** Script for a page with a shell at its prompt: types keys, each after the echo of the previous key. */
const typeKeys = `new Promise((resolve) => {
  const terminal = window.shownTerminal
  let echoes = 0
  terminal.onWriteParsed(() => (++echoes === ${typedKeys} ? resolve() : setTimeout(() => terminal.input('x'), 5)))
  terminal.input('x')
})`
