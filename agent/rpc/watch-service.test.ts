import { EventEmitter } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import { expect } from 'chai'
import type { WatchResponse } from '../../proto/gen/berth/agent/v1/watch.js'
import { Changes } from '../state/changes.js'
import { openDatabase } from '../state/database.js'
import { createWatchService, type WatchSource } from './watch-service.js'
import type { WatchKind } from './watch-kinds.js'

/** A watcher that can be slow. The entities are templates, and the size of a template is its revision. */
class Watcher extends EventEmitter {
  readonly changes = new Changes(openDatabase(':memory:'))
  readonly request: { epoch: string; revision: number }
  readonly #revisions = new Map<string, number>()
  /** Each received change as a line, such as `3 a=2, complete 3` or `4 a removed, complete 4` (see `write`). */
  readonly received: string[] = []
  isSlow = false
  isUnreadable = false

  constructor() {
    super()
    this.request = { epoch: this.changes.epoch, revision: this.changes.revision }
    const template: WatchKind = {
      list: () => [],
      find: (id) => {
        if (this.isUnreadable) throw new Error('the journal cannot be read')
        const revision = this.#revisions.get(id)
        return revision ? { revision, event: { $case: 'template', value: { id, revision } as never } } : undefined
      },
    }
    const kinds = { template, guest: template, operation: template, alert: template, import: template }
    const metrics = { latest: undefined, listen: () => () => undefined }
    const source: WatchSource = {
      changes: this.changes,
      kinds,
      metrics,
      describe: () => ({}) as never,
      failed: () => undefined,
    }
    createWatchService(source).service.watch(this as never)
  }

  write({ revision, event, completeRevision }: WatchResponse): boolean {
    if (event?.$case === 'template')
      this.received.push(`${revision} ${event.value.id}=${event.value.revision}, complete ${completeRevision}`)
    else if (event?.$case === 'removed')
      this.received.push(`${revision} ${event.value.key} removed, complete ${completeRevision}`)
    return !this.isSlow
  }

  change(...ids: readonly string[]): void {
    this.changes.transaction(() => ids.forEach((id) => this.#revisions.set(id, this.changes.record('template', id))))
  }

  remove(id: string): void {
    this.#revisions.delete(id)
    this.changes.transaction(() => this.changes.record('template', id, true))
  }

  /** Simulates that the slow watcher has read everything that was written. */
  drain(): void {
    this.isSlow = false
    this.emit('drain')
  }
}

describe('a watch of a host', () => {
  it('sends each change to a watcher that is fast enough', async () => {
    const watcher = new Watcher()
    watcher.change('a')
    await turn()
    watcher.change('b')
    await turn()
    watcher.change('a')
    await turn()
    expect(watcher.received).to.deep.equal(['1 a=1, complete 1', '2 b=2, complete 2', '3 a=3, complete 3'])
  })

  it('sends slow watchers only the last change of each entity, and the revision up to which they know every change', async () => {
    const watcher = new Watcher()
    watcher.isSlow = true
    watcher.change('first')
    await turn()
    watcher.change('a', 'b', 'c')
    watcher.change('d', 'b')
    await turn()
    watcher.drain()
    expect(watcher.received).to.deep.equal([
      '1 first=1, complete 1',
      '2 a=2, complete 2',
      '4 c=4, complete 2',
      '5 d=5, complete 2',
      '6 b=6, complete 6',
    ])
  })

  it('ends with an error after a failure, so that the watcher gets the whole state again', async () => {
    const watcher = new Watcher()
    let error: unknown
    watcher.on('error', (failure: unknown) => (error = failure))
    watcher.isUnreadable = true
    watcher.change('a')
    await turn()
    expect(error).to.include({ code: status.INTERNAL })
    expect(watcher.received).to.deep.equal([])
  })

  it('sends a slow watcher the removal of an entity, but not the earlier changes of this entity', async () => {
    const watcher = new Watcher()
    watcher.isSlow = true
    watcher.change('first')
    await turn()
    watcher.change('a', 'b')
    watcher.remove('a')
    await turn()
    watcher.drain()
    expect(watcher.received).to.deep.equal(['1 first=1, complete 1', '3 b=3, complete 1', '4 a removed, complete 4'])
  })
})
