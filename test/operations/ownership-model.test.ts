import { expect } from 'chai'
import { firstWorld, productRules, type Rules } from '../support/operations/ownership-model.js'
import { search } from '../support/operations/ownership-search.js'

/** Faults in the rules. Each one must be found by the search. */
const faults: Readonly<Record<string, Partial<Rules>>> = {
  'a source starts a guest that it handed over': {
    mayStart: ({ role }) => role === 'owner' || role === 'handed_over',
  },
  'a target starts a guest before it is appointed': {
    mayStart: ({ role }) => role === 'owner' || role === 'arriving',
  },
  'a source hands over a running guest': { maySend: () => true, mayHandOver: ({ isSent }) => isSent },
  'a source hands over before the last transfer is confirmed': { mayHandOver: ({ isRunning }) => !isRunning },
  'a source keeps a guest that it handed over': {
    planOwnership: (known, event) =>
      productRules.planOwnership(
        event.kind === 'stay' && known.role === 'handed_over' ? { ...known, role: 'leaving' } : known,
        event,
      ),
  },
  'the gateway switches before the guest is handed over': { maySwitch: () => true },
  'the gateway switches by the report of another move': {
    planSwitch: (owner) => productRules.planSwitch(owner, owner.move?.id ?? ''),
  },
  'a canceled move has no new generation': {
    planCancel: (owner, id) => {
      const next = productRules.planCancel(owner, id)
      return next && { ...next, generation: owner.generation }
    },
  },
  'a decided move can be canceled': {
    planSwitch: (owner, id) => {
      const next = owner.generation < 3 ? productRules.planSwitch(owner, id) : undefined
      return next && { ...next, move: owner.move! }
    },
    planCancel: (owner, id) => {
      const next = productRules.planCancel(owner, id)
      return next && { ...next, hostId: '0' }
    },
  },
  'a host accepts an older generation': {
    planOwnership: (known, event) =>
      event.kind === 'appoint' && event.generation > 0
        ? productRules.planOwnership({ ...known, generation: -1 }, event)
        : productRules.planOwnership(known, event),
  },
  'a host forgets the generation of a guest that left': { rememberedGeneration: () => 0 },
  'a target keeps the disk of an older move': {
    planOwnership: (known, event) => {
      const change = productRules.planOwnership(known, event)
      return change && event.kind === 'expect' ? { ...change, effect: 'none' } : change
    },
    mayHandOver: ({ isRunning }) => !isRunning,
  },
  'an owner ignores that the guest stays': {
    planOwnership: (known, event) =>
      event.kind === 'appoint' && known.role === 'handed_over' && event.isOwner
        ? undefined
        : productRules.planOwnership(known, event),
  },
}

describe('ownership of guests that move', () => {
  it('never runs one guest twice and never loses it, in 2 moves between 3 hosts', () => {
    const { states, violation } = search([firstWorld(3)], productRules, 2)
    expect(violation).to.equal(undefined)
    expect(states).to.be.greaterThan(1000)
  })

  // Guests affect each other only by crashes of hosts, which the search with one guest contains, too.
  it('never runs two guests twice and never loses them, when their hosts crash', () => {
    const { states, violation } = search([firstWorld(2), firstWorld(2)], productRules, 1)
    expect(violation).to.equal(undefined)
    expect(states).to.be.greaterThan(1000)
  })

  for (const [name, fault] of Object.entries(faults))
    it(`finds the fault that ${name}`, () => {
      const { violation } = search([firstWorld(3)], { ...productRules, ...fault }, 2)
      expect(violation).to.be.a('string')
    })
})
