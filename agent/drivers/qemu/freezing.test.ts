import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import pino from 'pino'
import { waitFor } from '../../../test/support/wait.js'
import { FileSystemFreezer } from './freezing.js'
import { qemuPaths } from './paths.js'

interface GuestAgentCommand {
  readonly id: number
  readonly execute: string
  readonly arguments?: { readonly id: number }
}

/** The tests use an agent like qemu-ga, which executes commands one after another, whoever sent them. */
describe('a freeze of a guest’s file systems', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-freezing-'))
  const run = { ...qemuPaths({ stateDir: directory, runDir: directory, namePrefix: 'bt' }).runOf('bt-1') }
  Object.assign(run, { frozen: join(directory, 'frozen'), agent: join(directory, 'agent') })
  const sockets = new Set<Socket>()
  let server: Server
  let freezing: FileSystemFreezer
  let listens: boolean
  let asked: string[]
  /** Answers by command; undefined means that the agent stays silent. */
  let answers: Record<string, () => object | undefined | Promise<object>>

  beforeEach(async () => {
    asked = []
    answers = {}
    listens = true
    freezing = new FileSystemFreezer({
      runOf: () => run,
      listens: async () => listens,
      log: pino({ enabled: false }),
      thawTimeoutMs: 50,
      pauseMs: 10,
    })
    let before: Promise<unknown> = Promise.resolve()
    server = createServer((socket) => {
      sockets.add(socket.on('error', () => undefined))
      socket.on('data', (chunk: Buffer) => {
        for (const line of chunk.toString('latin1').replaceAll('\xff', '').split('\n').filter(Boolean))
          before = before.then(() => answer(socket, JSON.parse(line) as GuestAgentCommand))
      })
    })
    await new Promise<void>((done) => server.listen(run.agent, done))
  })
  afterEach(async () => {
    freezing.close()
    for (const socket of sockets) socket.destroy()
    sockets.clear()
    await new Promise((done) => server.close(done))
    rmSync(run.frozen, { force: true })
  })
  after(() => rmSync(directory, { recursive: true, force: true }))

  async function answer(socket: Socket, { id, execute, arguments: args }: GuestAgentCommand): Promise<void> {
    if (execute !== 'guest-sync-delimited') asked.push(execute.replace('guest-fsfreeze-', ''))
    const said = answers[execute] ? await answers[execute]() : { return: args?.id ?? 1 }
    if (said) socket.write(`${JSON.stringify({ ...said, id })}\n`)
  }

  const refuse = (): object => ({ error: { class: 'CommandNotFound', desc: 'disabled' } })
  const isMarked = (): boolean => existsSync(run.frozen)
  const codeOf = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'done',
      (error: { code: string }) => error.code,
    )

  it('creates a file that marks the guest as frozen until the thaw deletes it', async () => {
    expect([await freezing.freeze('bt-1', 5000), isMarked()]).to.deep.equal([true, true])
    await freezing.thaw('bt-1')
    await freezing.thaw('bt-1')
    expect([asked, isMarked()]).to.deep.equal([['freeze', 'thaw'], false])
  })

  it('is undone if the guest executes the freeze so late that freeze and thaw have already timed out', async () => {
    let finish = (): void => undefined
    answers['guest-fsfreeze-freeze'] = () => new Promise((done) => (finish = () => done({ return: 1 })))
    expect(await freezing.freeze('bt-1', 50)).to.equal(false)
    expect(await codeOf(freezing.thaw('bt-1'))).to.equal('guest_agent_missing')
    expect([await freezing.freeze('bt-1', 50), isMarked()]).to.deep.equal([false, true])
    expect(asked).to.deep.equal(['freeze'])
    finish()
    await waitFor(() => !isMarked())
    expect(asked.slice(0, 2)).to.deep.equal(['freeze', 'thaw'])
    answers = {}
    expect(await freezing.freeze('bt-1', 5000)).to.equal(true)
  })

  it('is undone by a second thaw if the guest disconnects during the freeze and refuses the first thaw', async () => {
    answers['guest-fsfreeze-freeze'] = () => {
      for (const socket of sockets) socket.destroy()
      return undefined
    }
    answers['guest-fsfreeze-thaw'] = refuse
    expect([await freezing.freeze('bt-1', 5000), isMarked()]).to.deep.equal([false, true])
    expect(await codeOf(freezing.thaw('bt-1'))).to.equal('machine_refused')
    delete answers['guest-fsfreeze-thaw']
    await waitFor(() => !isMarked())
  })

  it('is not followed by a thaw if the guest agent refused the freeze or did not answer “sync”', async () => {
    answers['guest-fsfreeze-freeze'] = refuse
    expect([await freezing.freeze('bt-1', 5000), isMarked()]).to.deep.equal([false, false])
    answers['guest-sync-delimited'] = () => undefined
    expect([await freezing.freeze('bt-1', 50), isMarked()]).to.deep.equal([false, false])
    await freezing.thaw('bt-1')
    expect(asked).to.deep.equal(['freeze'])
  })

  it('counts as ended when no guest agent listens any more', async () => {
    answers['guest-fsfreeze-freeze'] = answers['guest-fsfreeze-thaw'] = () => undefined
    await freezing.freeze('bt-1', 50)
    expect(await codeOf(freezing.thaw('bt-1'))).to.equal('machine_timeout')
    await waitFor(() => asked.length > 2)
    expect(isMarked()).to.equal(true)
    listens = false
    await waitFor(() => !isMarked())
  })
})
