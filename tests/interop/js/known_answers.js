'use strict';
// The answers every peer of the interoperability tests gives: a test knows them beforehand,
// whichever stack it talks to. ../py_peer/known_answers.py gives the same ones.

const {Flowable, Single} = require('rsocket-flowable');

const EMPTY = Buffer.alloc(0);

// rsocket-js leaves a field that has no bytes out of the frame it hands on.
const bytes = (field) => (field == null ? EMPTY : field);

// "0", "1", ... "count-1", never more of them than were asked for.
function numbers(count) {
  return new Flowable((subscriber) => {
    let next = 0;
    let wanted = 0;
    let ended = false;
    let emitting = false;
    subscriber.onSubscribe({
      cancel: () => {
        ended = true;
      },
      request: (n) => {
        wanted += n;
        // onNext may ask for more: the loop that runs already will see it.
        if (emitting) {
          return;
        }
        emitting = true;
        while (!ended && wanted > 0 && next < count) {
          wanted -= 1;
          subscriber.onNext({data: Buffer.from(String(next++))});
        }
        emitting = false;
        if (!ended && next === count) {
          ended = true;
          subscriber.onComplete();
        }
      },
    });
  });
}

function never() {
  return new Single((subscriber) => subscriber.onSubscribe(() => {}));
}

function knownAnswers() {
  let lastFireAndForget = EMPTY;
  let lastPush = EMPTY;
  return {
    requestResponse(payload) {
      const text = bytes(payload.data).toString();
      if (text.startsWith('error:')) {
        return Single.error(new Error(text.slice('error:'.length)));
      }
      switch (text) {
        case 'never':
          return never();
        case 'empty':
          return Single.of({});
        case 'last-fnf':
          return Single.of({data: lastFireAndForget});
        case 'last-push':
          return Single.of({data: lastPush});
        default:
          return Single.of({data: bytes(payload.data), metadata: payload.metadata});
      }
    },
    fireAndForget(payload) {
      lastFireAndForget = bytes(payload.data);
    },
    requestStream(payload) {
      return numbers(Number(bytes(payload.data).toString()));
    },
    requestChannel(payloads) {
      // Demand for the echo is demand for what is echoed, so it is passed through as it is.
      return payloads;
    },
    metadataPush(payload) {
      lastPush = bytes(payload.metadata);
      return Single.of(undefined);
    },
  };
}

module.exports = {bytes, knownAnswers};
