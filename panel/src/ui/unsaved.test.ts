import { expect } from 'chai'
import { Draft, forgetUnsaved, hasUnsaved } from './unsaved.ts'

/** A form whose inputs are tracked. */
function setUp() {
  const form = new EventTarget() as Element
  const draft = new Draft()
  const remove = draft.track(form)
  return { draft, remove, type: () => form.dispatchEvent(new Event('input')) }
}

describe('the unsaved values of a form', () => {
  afterEach(() => forgetUnsaved())

  it('remain unsaved until the request has succeeded', () => {
    const { draft, type } = setUp()
    expect(hasUnsaved()).to.equal(false)
    type()
    const { revision } = draft
    expect(hasUnsaved()).to.equal(true)
    draft.saved(revision)
    expect(hasUnsaved()).to.equal(false)
  })

  it('remain unsaved if the user types during the request', () => {
    const { draft, type } = setUp()
    type()
    const { revision } = draft
    type()
    draft.saved(revision)
    expect(hasUnsaved()).to.equal(true)
    draft.saved()
    expect(hasUnsaved()).to.equal(false)
  })

  it('no longer count after the form was removed, not even if it is changed later', () => {
    const { draft, remove, type } = setUp()
    type()
    remove()
    expect(hasUnsaved()).to.equal(false)
    draft.touch()
    expect(hasUnsaved()).to.equal(false)
  })

  it('are reported with each change, so that the form can offer to save them', () => {
    const reported: boolean[] = []
    const form = new EventTarget() as Element
    const draft = new Draft((hasUnsaved) => reported.push(hasUnsaved))
    const remove = draft.track(form)
    form.dispatchEvent(new Event('input'))
    const { revision } = draft
    draft.touch()
    draft.saved(revision)
    expect(reported, 'a later change is not saved').to.deep.equal([true, true])
    draft.saved()
    draft.touch()
    remove()
    expect(reported).to.deep.equal([true, true, false, true, false])
  })

  it('are only those that the form reports, if the form knows when its values differ', () => {
    const form = new EventTarget() as Element
    const draft = new Draft()
    const release = draft.hold(form)
    form.dispatchEvent(new Event('input'))
    expect(hasUnsaved()).to.equal(false)
    draft.touch()
    expect(hasUnsaved()).to.equal(true)
    release()
    expect(hasUnsaved()).to.equal(false)
  })
})
