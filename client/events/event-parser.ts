/* This module parses server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */

export interface StreamEvent {
  readonly id: string
  readonly kind: string
  readonly data: string
}

export class EventParser {
  #rest = ''
  #fields: Record<string, string> = {}

  /** @returns the events that this part completes */
  push(text: string): StreamEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/)
    this.#rest = lines.pop() ?? ''
    return lines.flatMap((line) => this.#pushLine(line))
  }

  #pushLine(line: string): StreamEvent[] {
    if (line === '') return this.#take()
    const [, name = '', value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []
    const earlier = this.#fields['data']
    if (name !== '') this.#fields[name] = name === 'data' && earlier !== undefined ? `${earlier}\n${value}` : value
    return []
  }

  #take(): StreamEvent[] {
    const { id = '', event = 'message', data } = this.#fields
    this.#fields = {}
    return data === undefined ? [] : [{ id, kind: event, data }]
  }
}
