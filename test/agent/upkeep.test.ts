import Database from 'better-sqlite3'
import { expect } from 'chai'
import { join } from 'node:path'
import { LabAgent } from '../support/memory/lab-agent.js'
import { createTestPki, type TestPki } from '../support/gateway/pki.js'
import { waitFor } from '../support/wait.js'

const dayMs = 86_400_000

describe('the clean-up of the journal', function () {
  let pki: TestPki
  before(async () => {
    pki = await createTestPki()
  })
  after(() => pki.remove())

  /** Starts the agent in the process of the test. */
  async function startAgent(operations: Record<string, number>): Promise<LabAgent> {
    const { identityDir } = await pki.enrol('h-upkeep')
    return LabAgent.start({ identityDir, config: { operations } })
  }

  it('removes ended operations, and later also the ids of removed operations, after the configured times', async () => {
    const agent = await startAgent({ keep_days: 2 })
    try {
      await agent.stop()
      const journal = join(agent.stateDir, 'journal.db')
      addEnded(journal, { old: 2 * dayMs + 60_000, young: 2 * dayMs - 60_000 })
      addRemoved(journal, { forgotten: 2 * dayMs + 60_000, known: 2 * dayMs - 60_000 })
      await agent.resume()
      await waitFor(() => listOperations(journal).length === 1, { what: 'the old one to go' })
      expect(listOperations(journal)).to.deep.equal(['young'])
      await waitFor(() => listOperations(journal, 'removed_operations').length === 2, { what: 'forgetting' })
      expect(listOperations(journal, 'removed_operations')).to.deep.equal(['known', 'old'])
    } finally {
      await agent.destroy()
    }
  })

  it('keeps at most the configured numbers of ended operations and of removed ids', async () => {
    const agent = await startAgent({ keep: 100, remember: 1000 })
    try {
      await agent.stop()
      const journal = join(agent.stateDir, 'journal.db')
      addEnded(journal, agesFrom(0, 'young', 130))
      addRemoved(journal, agesFrom(3_600_000, 'gone', 1000))
      await agent.resume()
      await waitFor(() => listOperations(journal).length === 100, { what: 'the oldest to go' })
      expect(listOperations(journal).at(-1), 'the youngest stay').to.equal('young0099')
      await waitFor(() => listOperations(journal, 'removed_operations').length === 1000, {
        what: 'forgetting',
      })
      const known = listOperations(journal, 'removed_operations')
      expect(
        known.filter((id) => id.startsWith('young')),
        'removed just now',
      ).to.have.length(30)
    } finally {
      await agent.destroy()
    }
  })
})

/** Ages in milliseconds of `count` operations by id. Each operation is a second older than the one before. */
function agesFrom(ageMs: number, name: string, count: number): Record<string, number> {
  const ages = Array.from({ length: count }, (_, n) => [`${name}${String(n).padStart(4, '0')}`, ageMs + n * 1000])
  return Object.fromEntries(ages) as Record<string, number>
}

function addEnded(journal: string, ages: Record<string, number>): void {
  const db = new Database(journal)
  for (const [id, ageMs] of Object.entries(ages))
    db.prepare(
      `INSERT INTO operations (id, action, subject_id, subject_number, subject_name, request_hash, input, status,
         requested_by, created_at_ms, finished_at_ms, revision)
       VALUES (?, 'stop', '', 0, '', '', 'null', 'done', 'test', 1, ?, 0)`,
    ).run(id, Date.now() - ageMs)
  db.close()
}

function addRemoved(journal: string, ages: Record<string, number>): void {
  const db = new Database(journal)
  for (const [id, ageMs] of Object.entries(ages))
    db.prepare("INSERT INTO removed_operations VALUES (?, '', '{}', ?)").run(id, Date.now() - ageMs)
  db.close()
}

function listOperations(journal: string, table = 'operations'): string[] {
  const db = new Database(journal, { readonly: true })
  const rows = db.prepare<[], { id: string }>(`SELECT id FROM ${table} ORDER BY id`).all()
  db.close()
  return rows.map(({ id }) => id)
}
