/** A term of the glossary in docs/README.md, with the words that it replaces. */
export interface Term {
  readonly term: string
  /** Matches words that must not be used for this term. */
  readonly synonyms: RegExp
  /** The reason why the synonyms are wrong. */
  readonly reason: string
}

const common: readonly Term[] = [
  {
    term: 'host, virtual machine',
    synonyms: /(?<!virtual )\bmachines?\b/gi,
    reason: '"machine" could mean a host, a guest or a computer of a client',
  },
  { term: 'host', synonyms: /\b(?:nodes?|hypervisors?)\b/gi, reason: 'a server with an agent has one name' },
  { term: 'virtual machine', synonyms: /\b(?:VMs?|VPS|boxe?s?)\b/g, reason: 'the abbreviations are not explained' },
  { term: 'customer, sub-user', synonyms: /\b(?:persons?|people|tenants?)\b/gi, reason: 'name the kind of account' },
  { term: 'caller', synonyms: /\b(?:principals?|requesters?)\b/gi, reason: 'only the code knows principals' },
  { term: 'operation, task', synonyms: /\bjobs?\b/gi, reason: 'work with steps is a task' },
  { term: 'standby', synonyms: /\b(?:stand-by|hot spares?)\b/gi, reason: 'one word for one copy' },
  { term: 'delete', synonyms: /\b(?:destroy|erase|purge)[sd]?\b/gi, reason: 'one word for one action' },
  { term: 'login, log in', synonyms: /\b(?:log-in|sign(?:s|ed)?[ -]in)\b/gi, reason: 'one word for one action' },
]

const apiTerms: readonly Term[] = [
  ...common,
  {
    term: 'container',
    synonyms: /\bguests?\b(?! agent)/gi,
    reason: 'the API calls guests containers; the guest agent is a program',
  },
  { term: 'sub-user', synonyms: /\bcustomers?\b/gi, reason: 'the API calls customers sub-users' },
  { term: 'task', synonyms: /(?<!I\/O )\boperations?\b/gi, reason: 'operations exist only in the agent' },
]

const panelTerms: readonly Term[] = [
  ...common,
  { term: 'guest', synonyms: /(?<!LXC )\bcontainers?\b/gi, reason: 'the panel has guests of two kinds' },
  { term: 'customer', synonyms: /\bsub-?users?\b/gi, reason: 'the panel calls sub-users customers' },
  { term: 'task', synonyms: /\boperations?\b/gi, reason: 'operations exist only in the agent' },
]

const termsOf = { api: apiTerms, panel: panelTerms } as const

/** Matches code and the names of fields, scopes and placeholders. Their spelling is fixed, so they are not checked. */
const code = /`[^`]*`|\{\{\w+\}\}|\w+(?:[.:_]+[\w*]+)+/g

/** Finds words in a text that the glossary replaces with another term. Each result names the term and the reason. */
export function synonymsIn(text: string, audience: keyof typeof termsOf): string[] {
  const prose = text.replace(code, 'X')
  return termsOf[audience].flatMap(({ term, synonyms, reason }) =>
    [...prose.matchAll(synonyms)].map(([word]) => `"${word}" instead of "${term}" (${reason}): ${text}`),
  )
}
