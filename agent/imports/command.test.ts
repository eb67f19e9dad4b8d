import { expect } from 'chai'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import { pino } from 'pino'
import { moduleUrl, nodeEval } from '../../test/support/programs.js'
import { waitFor } from '../../test/support/wait.js'
import { Changes } from '../state/changes.js'
import { openDatabase } from '../state/database.js'
import { importContainer } from './command.js'
import { ImportStore } from './import-store.js'
import { serveImports } from './import-server.js'
import { Imports, type ImportsParts } from './imports.js'

const id = '00000000-0000-4000-8000-000000000001'
const command = moduleUrl('agent/imports/command.ts')
const source = { path: '/srv/rootfs' }
const spec = GuestSpec.create({ importId: id })

describe('berth-agent import while it waits for a gateway', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-import-'))
  const changes = new Changes(openDatabase(':memory:'))
  const store = new ImportStore(changes)
  const canceled: string[] = []
  let close: () => Promise<void>

  before(async () => {
    const engine = { cancel: (operation: string) => void canceled.push(operation) }
    const imports = new Imports({ store, engine: () => engine } as unknown as ImportsParts)
    imports.begin = async () => {
      if (store.listOpen().length > 0) return { id }
      store.add({ id, name: 'web1', source, spec })
      return { id, plan: { name: 'web1', source, spec, notes: [], usedBytes: 0 } }
    }
    close = await serveImports(imports, directory, pino({ level: 'silent' }))
  })
  after(async () => {
    await close()
    changes.db.close()
    rmSync(directory, { recursive: true, force: true })
  })

  const cancel = (which: string) =>
    importContainer({ run_dir: directory }, { kind: undefined, container: undefined, options: { cancel: which } })
  const codeOf = (work: Promise<void>) =>
    work.then(
      () => 'done',
      (error: { code?: string }) => error.code,
    )

  /** Starts the command, waits until it follows the import, and ends it with Ctrl-C. */
  async function runInterrupted(): Promise<{ code: unknown; out: string; err: string }> {
    const order = { kind: 'directory', container: '/srv/rootfs', options: {} }
    const given = `{ run_dir: '${directory}' }, ${JSON.stringify(order)}`
    const program = `import { importContainer } from '${command}'; await importContainer(${given})`
    const child = spawn(process.execPath, nodeEval(program))
    let [out, err] = ['', '']
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
    const ended = once(child, 'close')
    await waitFor(() => out.includes('waiting for a gateway'), { what: () => out + err })
    child.kill('SIGINT')
    return { code: (await ended)[0], out, err }
  }

  it('prints the id of the import at the start and after Ctrl-C, which does not cancel the import', async () => {
    const { code, out, err } = await runInterrupted()
    expect(code).to.equal(130)
    expect(out).to.match(/^name +web1$/m)
    expect(out).to.match(new RegExp(`^import ${id}$`, 'm'))
    expect(err).to.include(`berth-agent import --cancel ${id}`)
    expect(store.find(id)?.state).to.equal('waiting')
  })

  it('follows the same import if the command is repeated, and prints no second plan', async () => {
    const { out } = await runInterrupted()
    expect(out)
      .to.match(new RegExp(`^import ${id}$`, 'm'))
      .and.contain('already being imported')
    expect(out).not.to.match(/^name /m)
  })

  it('cancels an import by its id, and its task if a gateway has already ordered the guest', async () => {
    for (let time = 0; time < 2; time++) {
      await cancel(id)
      expect(store.find(id)).to.include({ state: 'refused', message: 'the import was canceled' })
    }
    store.add({ id, name: 'web1', source, spec })
    store.order(id)
    await cancel(id)
    expect(canceled).to.deep.equal([id])
    expect(await codeOf(cancel('web1'))).to.equal('invalid_field')
  })
})
