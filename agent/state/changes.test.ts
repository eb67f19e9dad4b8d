import { expect } from 'chai'
import { Changes, type Change } from './changes.js'
import { openDatabase, type Database } from './database.js'

describe('changes in the journal', () => {
  let db: Database
  let changes: Changes

  beforeEach(() => {
    db = openDatabase(':memory:')
    changes = new Changes(db)
  })
  afterEach(() => db.close())

  const remove = (key: string): number => changes.transaction(() => changes.record('guest', key, true))

  it('are numbered without gaps, even after the journal is opened again', () => {
    const first = changes.transaction(() => changes.record('guest', 'a'))
    const second = changes.transaction(() => changes.record('operation', 'b'))
    expect([first, second]).to.deep.equal([1, 2])
    const reopened = new Changes(db)
    expect(reopened.revision).to.equal(2)
    expect(reopened.epoch).to.equal(changes.epoch)
  })

  it('are rolled back if the transaction’s function throws', () => {
    remove('before')
    const heard = listen(changes)
    const work = (): never => {
      changes.record('guest', 'a')
      changes.record('guest', 'b', true)
      throw new Error('no')
    }
    expect(() => changes.transaction(work)).to.throw('no')
    expect(changes.revision).to.equal(1)
    expect(changes.removedSince(0)?.map(({ key }) => key)).to.deep.equal(['before'])
    expect(remove('after')).to.equal(2)
    expect(heard.map(({ key }) => key)).to.deep.equal(['after'])
  })

  it('are reported to listeners after the commit, in the order in which they were made', () => {
    const seen: string[] = []
    changes.onChange(({ key }) => seen.push(`${key} ${db.inTransaction ? 'open' : 'committed'}`))
    changes.transaction(() => {
      changes.record('guest', 'a')
      changes.transaction(() => changes.record('guest', 'b'))
      expect(seen).to.deep.equal([])
    })
    expect(seen).to.deep.equal(['a committed', 'b committed'])
  })

  it('are reported to all listeners in the same order, even if a listener records a further change', () => {
    changes.onChange(({ key }) => {
      if (key === 'a') changes.transaction(() => changes.record('guest', 'c'))
    })
    const heard = listen(changes)
    changes.transaction(() => {
      changes.record('guest', 'a')
      changes.record('guest', 'b')
    })
    expect(heard.map(({ revision, key }) => `${revision}${key}`)).to.deep.equal(['1a', '2b', '3c'])
  })

  it('stay committed when a listener throws', () => {
    const errors: unknown[] = []
    const guarded = new Changes(db, { onListenerError: (error) => errors.push(error) })
    guarded.onChange(() => {
      throw new Error('listener')
    })
    const heard = listen(guarded)
    expect(guarded.transaction(() => guarded.record('guest', 'a'))).to.equal(1)
    expect(guarded.revision).to.equal(1)
    expect(heard).to.have.length(1)
    expect(errors).to.have.length(1)
  })

  it('are not reported to removed listeners', () => {
    const heard: Change[] = []
    const stop = changes.onChange((change) => heard.push(change))
    stop()
    remove('a')
    expect(heard).to.deep.equal([])
  })

  it('are rejected outside of transactions', () => {
    expect(() => changes.record('guest', 'a')).to.throw('outside a transaction')
    expect(() => db.transaction(() => changes.record('guest', 'a'))()).to.throw('outside a transaction')
    expect(() => db.transaction(() => remove('a'))()).to.throw('that Changes.transaction() has not begun')
  })

  it('keep only the latest removals, and a reader that needs older removals gets undefined', () => {
    changes = new Changes(db, { keptRemovals: 10 })
    for (let n = 1; n <= 12; n++) remove(`g${n}`)
    expect(changes.removedSince(2)?.map(({ key }) => key)).to.deep.equal(names(3, 12))
    expect(changes.removedSince(1)).to.equal(undefined)
    expect(changes.removedSince(12)).to.deep.equal([])
    expect(changes.removedSince(13), 'of another journal').to.equal(undefined)
    for (let n = 13; n <= 60; n++) remove(`g${n}`)
    const kept = db.prepare<[], { n: number }>('SELECT count(*) AS n FROM removed').get()?.n
    expect(kept).to.be.within(10, 11)
    expect(new Changes(db, { keptRemovals: 10 }).removedSince(50)).to.have.length(10)
  })
})

function listen(changes: Changes): Change[] {
  const heard: Change[] = []
  changes.onChange((change) => heard.push(change))
  return heard
}

function names(from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, index) => `g${from + index}`)
}
