import { expect } from 'chai'
import { firstWorld, productRules, type Rules } from '../support/operations/ownership-model.js'
import { search } from '../support/operations/ownership-search.js'

/** Deliberate faults in the product's rules. The search must find each of them. */
const faults: Readonly<Record<string, Partial<Rules>>> = {
  'the source host starts a guest that it has handed over': {
    mayStart: ({ role }) => role === 'owner' || role === 'handed_over',
  },
  'the target host starts a guest before the gateway makes it the owner': {
    mayStart: ({ role }) => role === 'owner' || role === 'arriving',
  },
  'the source host hands over a running guest': { maySend: () => true, mayHandOver: ({ isSent }) => isSent },
  'the source host hands over a guest before the last transfer of its data is confirmed': {
    mayHandOver: ({ isRunning }) => !isRunning,
  },
  'the source host keeps a guest that it has handed over': {
    planOwnership: (known, event) =>
      productRules.planOwnership(
        event.kind === 'stay' && known.role === 'handed_over' ? { ...known, role: 'leaving' } : known,
        event,
      ),
  },
  'the gateway changes the owner before the guest is handed over': { maySwitch: () => true },
  'the gateway changes the owner because of a report about another move': {
    planSwitch: (owner) => productRules.planSwitch(owner, owner.move?.id ?? ''),
  },
  'the cancellation of a move does not increase the generation number of the owner': {
    planCancel: (owner, id) => {
      const next = productRules.planCancel(owner, id)
      return next && { ...next, generation: owner.generation }
    },
  },
  'a move can be canceled after the gateway has changed the owner': {
    planSwitch: (owner, id) => {
      const next = owner.generation < 3 ? productRules.planSwitch(owner, id) : undefined
      return next && { ...next, move: owner.move! }
    },
    planCancel: (owner, id) => {
      const next = productRules.planCancel(owner, id)
      return next && { ...next, hostId: '0' }
    },
  },
  'a host accepts a request with an older generation number': {
    planOwnership: (known, event) =>
      event.kind === 'appoint' && event.generation > 0
        ? productRules.planOwnership({ ...known, generation: -1 }, event)
        : productRules.planOwnership(known, event),
  },
  'a host forgets the generation number of a guest that has left it': {
    rememberedGeneration: () => 0,
    mayDismiss: () => true,
  },
  'the target host keeps the disk of an earlier move': {
    planOwnership: (known, event) => {
      const change = productRules.planOwnership(known, event)
      return change && event.kind === 'expect' ? { ...change, effect: 'none' } : change
    },
    mayHandOver: ({ isRunning }) => !isRunning,
  },
  'the source host ignores that it owns the guest again after a hand-over': {
    planOwnership: (known, event) =>
      event.kind === 'appoint' && known.role === 'handed_over' && event.isOwner
        ? undefined
        : productRules.planOwnership(known, event),
  },
}

/** Deliberate faults that matter only if a host is restored from an older image, or removed from the fleet. */
const incidentFaults: Readonly<Record<string, Partial<Rules>>> = {
  'a source deletes its copy although no other host has the guest': { mayDismiss: () => true },
  'a source does not get its guest back from a removed target': { planReturn: () => undefined },
  'a restored host keeps running a guest that has moved': { fences: () => false },
}

/** Deliberate faults that matter only if a host fails and its guest is restored on another host. */
const evacuationFaults: Readonly<Record<string, Partial<Rules>>> = {
  'an evacuation does not increase the generation number of the owner': {
    planEvacuate: (owner, from, to) => {
      const next = productRules.planEvacuate(owner, from, to)
      return next && { ...next, generation: owner.generation }
    },
  },
  'a host that returns starts its guests before a gateway has compared their owners': { waitsForOwners: () => false },
  'the failed host becomes the owner again although the guest was restored': { mayReinstate: () => true },
  'a failed restore does not make the failed host the owner again': { planReinstate: () => undefined },
  'a gateway does not tell a host the newest owner of a guest that is fenced there': {
    isTold: ({ role }) => role === 'owner' || role === 'leaving',
  },
  'a guest is restored on a host that has an old copy': { mayRestoreOn: () => true },
}

/** Deliberate faults that matter only if a host fails during a move, and its guest is restored on another host. */
const brokenMoveFaults: Readonly<Record<string, Partial<Rules>>> = {
  'a returning host deletes the disk that it has handed over in a canceled move': { keepsCopies: () => false },
  'a gateway forgets a move that is not decided': {
    mayForgetMove: () => true,
    planEvacuate: ({ hostId, generation }, from, to) => productRules.planEvacuate({ hostId, generation }, from, to),
  },
  'a returning host is not notified of the newest owner of a guest that it has handed over': {
    isTold: ({ role }) => role !== 'absent' && role !== 'handed_over',
  },
}

describe('the model of guests that move between hosts', () => {
  it('has no state in which a guest runs twice or is lost (2 moves between 3 hosts)', () => {
    const { states, violation } = search([firstWorld(3)], productRules, { moves: 2, incidents: 0 })
    expect(violation).to.equal(undefined)
    expect(states).to.be.greaterThan(1000)
  })

  // Two guests affect each other only through a crash of their host. The search with one guest also includes crashes.
  it('has no state in which one of two guests runs twice or is lost, even if hosts crash', () => {
    const { states, violation } = search([firstWorld(2), firstWorld(2)], productRules, { moves: 1, incidents: 0 })
    expect(violation).to.equal(undefined)
    expect(states).to.be.greaterThan(1000)
  })

  it('has no state in which a guest runs twice because the source deletes its copy too early', () => {
    const { violation } = search(
      [firstWorld(3)],
      { ...productRules, mayDismiss: () => true },
      { moves: 2, incidents: 0 },
    )
    expect(violation).to.equal(undefined)
  })

  it('has no state in which a guest is lost or runs twice, even if a host is restored or removed', () => {
    const { states, violation } = search([firstWorld(2)], productRules, { moves: 2, incidents: 1 })
    expect(violation).to.equal(undefined)
    expect(states).to.be.greaterThan(1000)
  })

  it('has no state in which a guest is lost or runs twice, even if a host returns after its guests were restored elsewhere', () => {
    for (const [hosts, moves, evacuations] of [
      [3, 0, 2],
      [3, 1, 1],
    ] as const) {
      const { states, violation } = search([firstWorld(hosts)], productRules, { moves, evacuations, incidents: 0 })
      expect(violation).to.equal(undefined)
      expect(states).to.be.greaterThan(500)
    }
  })

  for (const [name, fault] of Object.entries(evacuationFaults))
    it(`finds a violation if a fault is built in: ${name}`, () => {
      const limits = { moves: 0, incidents: 0, evacuations: 2 }
      const { violation } = search([firstWorld(3)], { ...productRules, ...fault }, limits)
      expect(violation).to.be.a('string')
    })

  for (const [name, fault] of Object.entries(brokenMoveFaults))
    it(`finds a violation if a fault is built in: ${name}`, () => {
      const limits = { moves: 1, incidents: 0, evacuations: 1 }
      const { violation } = search([firstWorld(3)], { ...productRules, ...fault }, limits)
      expect(violation).to.be.a('string')
    })

  for (const [name, fault] of Object.entries(incidentFaults))
    it(`finds a violation if a fault is built in: ${name}`, () => {
      const { violation } = search([firstWorld(2)], { ...productRules, ...fault }, { moves: 1, incidents: 1 })
      expect(violation).to.be.a('string')
    })

  for (const [name, fault] of Object.entries(faults))
    it(`finds a violation if a fault is built in: ${name}`, () => {
      const { violation } = search([firstWorld(3)], { ...productRules, ...fault }, { moves: 2, incidents: 0 })
      expect(violation).to.be.a('string')
    })
})
