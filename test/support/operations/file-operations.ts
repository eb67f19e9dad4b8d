import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { appendFile, mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { OperationDefinition, Step, StepContext } from '../../../agent/operations/types.js'
import { Changes } from '../../../agent/state/changes.js'
import { openDatabase } from '../../../agent/state/database.js'

/** Steps of operations with visible effects: each step creates a file in the directory of its guest. */
export const fileSteps = ['disk', 'configure', 'network', 'start', 'initialize'] as const

export interface FileWorld {
  readonly directory: string
  readonly changes: Changes
}

export function openFileWorld(directory: string): FileWorld {
  const db = openDatabase(join(directory, 'journal.db'))
  db.exec('CREATE TABLE IF NOT EXISTS btest_guests (uuid TEXT PRIMARY KEY, status TEXT NOT NULL) STRICT')
  return { directory, changes: new Changes(db) }
}

export function reserveGuest({ changes }: FileWorld, uuid: string): void {
  changes.db.prepare("INSERT INTO btest_guests (uuid, status) VALUES (?, 'reserved')").run(uuid)
}

/** Returns the guests in the journal and their files, including temporary files. */
export function fileInventory({ directory, changes }: FileWorld): Record<string, unknown> {
  const rows = changes.db.prepare('SELECT uuid, status FROM btest_guests ORDER BY uuid').all()
  return { rows, files: guestFiles(directory) }
}

/** Returns a line for each step or undo that was executed, in order. */
export function readTrace(directory: string): string[] {
  const path = join(directory, 'trace')
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []
}

export function createFileDefinition(world: FileWorld): OperationDefinition<unknown, string> {
  return {
    action: 'create',
    steps: fileSteps.map((name) => makeFileStep(world, name)),
    settle: ({ subject }, outcome) => {
      const kept = outcome.status === 'done' ? 'made' : outcome.status === 'failed' && !outcome.undone && 'broken'
      setRow(world, subject.id, kept || undefined)
    },
  }
}

export function deleteFileDefinition(world: FileWorld): OperationDefinition<unknown, string> {
  const steps = fileSteps.toReversed().map((name) => ({
    name,
    run: (context: StepContext<unknown, string>) => removeFile(world, context, name),
  }))
  return {
    action: 'delete',
    forwardOnly: true,
    steps,
    settle: ({ subject }, outcome) => {
      if (outcome.status === 'done') setRow(world, subject.id, undefined)
    },
  }
}

/** Makes a step that writes a temporary file and renames it. A remaining temporary file shows an interrupted step. */
function makeFileStep(world: FileWorld, name: string): Step<unknown, string> {
  return {
    name,
    run: async (context) => {
      const path = guestPath(world, context.subject.id)
      await mkdir(path, { recursive: true })
      await writeFile(join(path, `${name}.part`), context.operationId)
      await rename(join(path, `${name}.part`), join(path, name))
      await trace(world, `${context.subject.id} ${context.operationId} ${name}`)
    },
    undo: (context) => removeFile(world, context, name),
  }
}

async function removeFile(world: FileWorld, context: StepContext<unknown, string>, name: string): Promise<void> {
  const path = guestPath(world, context.subject.id)
  await rm(join(path, name), { force: true })
  await rm(join(path, `${name}.part`), { force: true })
  if (existsSync(path) && readdirSync(path).length === 0) await rm(path, { recursive: true, force: true })
  await trace(world, `${context.subject.id} ${context.operationId} undo ${name}`)
}

async function trace({ directory }: FileWorld, line: string): Promise<void> {
  await appendFile(join(directory, 'trace'), `${line}\n`)
}

function setRow({ changes }: FileWorld, uuid: string, status: string | undefined): void {
  if (status === undefined) changes.db.prepare('DELETE FROM btest_guests WHERE uuid = ?').run(uuid)
  else changes.db.prepare('UPDATE btest_guests SET status = ? WHERE uuid = ?').run(status, uuid)
}

function guestPath({ directory }: FileWorld, uuid: string): string {
  return join(directory, 'guests', uuid)
}

function guestFiles(directory: string): string[] {
  const root = join(directory, 'guests')
  if (!existsSync(root)) return []
  return readdirSync(root, { recursive: true, encoding: 'utf8' }).sort()
}
