import { pino, type DestinationStream, type Level, type Logger } from 'pino'

export interface LogOptions {
  /** Name of the program or program part that writes the log. */
  name: string
  level: Level
  /** Destination of the log. Default: stderr. */
  destination?: DestinationStream
}

/** Names of properties with secrets. Their values are removed from log lines, up to two levels deep. */
const secretNames = [
  'authorization',
  'cookie',
  'password',
  'ssh_password',
  'sshPassword',
  'key',
  'api_key',
  'apiKey',
  'key_pem',
  'private_key',
  'privateKey',
  'secret',
  'token',
  'ticket',
  'access_code',
]
const secretPaths = [...secretNames, '["x-api-key"]'].flatMap((name) => {
  const tail = name.startsWith('[') ? name : `.${name}`
  return [name, `*${tail}`, `*.*${tail}`]
})

/** Matches API keys and join tokens within text, such as a header that an error message quotes. */
const secretText = /\b(berth_(?:sk|jt)_)[A-Za-z0-9_.-]{4,}/g

/** Makes a logger that writes JSON lines with ISO times to stderr. It hides secrets and shows an error's causes. */
export function createLogger(options: LogOptions): Logger {
  return pino(
    {
      name: options.name,
      level: options.level,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: secretPaths, censor: '********' },
      serializers: { err: pino.stdSerializers.err, error: pino.stdSerializers.err },
      hooks: { streamWrite: (line) => line.replace(secretText, '$1********') },
    },
    options.destination ?? pino.destination({ fd: 2, sync: true }),
  )
}
